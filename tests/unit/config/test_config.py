from pathlib import Path

import pytest

from mog_assets import config
from mog_assets.config import load
from mog_assets.resources.encoder_settings import EncoderSettings, with_keys
from mog_assets.resources.errors import ConfigError

CORPORA = "corpora: {garden: {path: garden.jsonl}}\n"


@pytest.fixture
def complaint(tmp_path):
    """The message that a configuration is refused with."""

    def refused(text: str) -> str:
        file = tmp_path / "mog.yaml"
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError) as caught:
            load(file)
        assert str(file) in str(caught.value)
        return str(caught.value).split(": ", 1)[1]

    return refused


@pytest.mark.parametrize(
    ("text", "key", "expected", "got"),
    [
        ("finest_chars: 0", "finest_chars", "greater than or equal to 50", "0"),
        ("retriever: bm52", "retriever", "'bm25', 'dense' or 'hybrid'", "'bm52'"),
        ("bm25: {b: 1.5}", "bm25.b", "less than or equal to 1", "1.5"),
        ("chunker: recursve", "chunker.name", "'paragraphs'", "'recursve'"),
        ("chunker: {name: fixed, tokens: 0}", "chunker.tokens", "greater than 0", "0"),
        (
            "chunker: {name: recursive, tokens: 99}",
            "chunker",
            "tokens only with the chunker 'fixed', not with 'recursive'",
            "'tokens': 99",
        ),
        ("encoder: 3", "encoder", "", "3"),
        ("methods: mog", "methods", "a valid list", "'mog'"),
        ("question_sets: {q: {path: q.jsonl, corpora: []}}", "question_sets.q.corpora", "at least 1 item", "[]"),
        (
            "question_sets: {q: {path: q.jsonl, corpora: [garden], train: [dev], test: [dev]}}",
            "question_sets.q",
            "not for both (dev)",
            "'train': ['dev']",
        ),
    ],
)
def test_wrong_value_names_key_and_what_was_expected_and_got(complaint, text, key, expected, got):
    message = complaint(CORPORA + text)
    assert message.startswith(f"{key}: expected ")
    assert expected in message
    assert got in message.split(", got ", 1)[1]


def test_missing_value_is_named(complaint):
    assert complaint("levels: 3") == "corpora: expected a value, got none"
    assert complaint("corpora: {garden: {}}") == "corpora.garden.path: expected a value, got none"


def test_every_error_is_reported_at_once(complaint):
    message = complaint(CORPORA + "levels: 0\nk: 0")
    assert "levels: expected" in message
    assert "k: expected" in message


@pytest.mark.parametrize(
    ("text", "key", "close"),
    [
        (CORPORA + "finest_char: 500", "finest_char", "finest_chars"),
        (CORPORA + "encoder: {modle: x}", "encoder.modle", "model"),
        ("corpora: {garden: {path: x, pth: y}}", "corpora.garden.pth", "path"),
        (
            CORPORA + "question_sets: {q: {path: x, corpora: [garden], trian: [dev]}}",
            "question_sets.q.trian",
            "train",
        ),
    ],
)
def test_unknown_key_suggests_the_closest(complaint, text, key, close):
    message = complaint(text)
    assert message.startswith(f"{key}: expected a known key, got {key.split('.')[-1]!r}")
    assert message.endswith(f"did you mean {close!r}?")
    assert complaint(CORPORA + "bm25: {zzzz: 1}").endswith("known keys: k1, b")


def test_missing_file_says_how_to_name_another(tmp_path):
    with pytest.raises(ConfigError, match=r"expected a readable UTF-8 YAML file.*--config or MOG_CONFIG"):
        load(tmp_path / "none.yaml")


def test_paths_are_relative_to_the_file_not_to_the_working_directory(tmp_path, monkeypatch):
    project = tmp_path / "project"
    project.mkdir()
    (project / "mog.yaml").write_text(
        "home: made\ncorpora: {a: {path: ../a.jsonl}, b: {path: /srv/b}}\n"
        "question_sets: {q: {path: q.jsonl, corpora: [a]}}"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOG_CONFIG", "project/mog.yaml")
    settings = load()
    assert settings.home == project.resolve() / "made"
    assert settings.corpora["a"].path == tmp_path.resolve() / "a.jsonl"
    assert settings.corpora["b"].path == Path("/srv/b")
    assert settings.question_sets["q"].path == project.resolve() / "q.jsonl"


def test_working_directory_is_the_last_resort(tmp_path, monkeypatch):
    (tmp_path / "mog.yaml").write_text(CORPORA)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MOG_CONFIG", raising=False)
    assert list(load().level_range) == [1, 2, 3, 4, 5]


def test_an_encoder_may_be_its_name_alone(tmp_path):
    (tmp_path / "mog.yaml").write_text("corpora: {a: {path: a}}\nencoder: sentence-transformers/x\n", encoding="utf-8")
    settings = config.load(tmp_path / "mog.yaml")
    assert settings.encoder == with_keys(EncoderSettings)(model="sentence-transformers/x")


@pytest.mark.parametrize("text", ["encoder: ''", "encoder: ./absent"])
def test_a_name_that_is_no_encoder_is_refused_as_its_model(complaint, text):
    assert "encoder.model: expected " in complaint(f"corpora: {{a: {{path: a}}}}\n{text}\n")
