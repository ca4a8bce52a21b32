"""Budgets in tokens of what reads the passages: never exceeded, and filled."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import requests
import tiktoken.load
import yaml
from shared import called

import mog_assets
from mog_assets.resources.embedded import embedded_folder
from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.resources.tokens import counter, of_file

pytestmark = pytest.mark.full

QUESTION = "How are seeds, soap and bread kept from going bad?"
METHODS = ["fused", "mix", "multihop", "fixed-2", "hop-1"]


@pytest.fixture(autouse=True)
def _encodings(monkeypatch):
    """Two encodings that a package brings along: those of tiktoken are downloaded."""
    folder = Path(find_spec("llama_index.core").origin).parent / "_static" / "tiktoken_cache"
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder))


def configured(project, **values):
    given = yaml.safe_load(project.config.read_text(encoding="utf-8"))
    project.config.write_text(yaml.safe_dump({**given, **values}, sort_keys=False), encoding="utf-8")


def counts(passages, count):
    return sum(count([p if isinstance(p, str) else p.text for p in passages]))


@pytest.mark.parts("hop-1")
@pytest.mark.parametrize("tokenizer", ["that of the reader", "tiktoken:cl100k_base"])
@pytest.mark.parametrize("method", METHODS)
def test_passages_fill_a_budget_and_never_exceed_it(copied_project, method, tokenizer):
    if tokenizer.startswith("tiktoken"):
        configured(copied_project, llm={"tokenizer": tokenizer})
        count = counter(tokenizer, "")
    else:
        count = of_file(embedded_folder("encoder") / "tokenizer.json", "encoder")
    with mog_assets.open(copied_project.config, refresh=None) as project:
        sizes = []
        for budget in (150, 300, 700):
            passages = project.search(QUESTION, budget=f"{budget} tokens", method=method).passages
            sizes.append(counts(passages, count))
            # The best one is there whatever its size.
            assert 0 < sizes[-1] <= budget or (method, len(passages)) == ("hop-1", 1)
        # What is left has no room for the next piece, which has some hundred tokens, or a neighbourhood of some.
        assert sizes[-1] > 700 - (500 if method == "hop-1" else 260)
        whole = [p.text for p in project.search(QUESTION, budget="20000 tokens", method=method).passages]
        assert counts(whole, count) > 700


def test_the_command_and_the_settings_take_tokens(copied_project):
    def retrieved(*options):
        done = called("search", QUESTION, "--json", *options, "--config", copied_project.config)
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    of_option = retrieved("--budget-tokens", "200")
    configured(copied_project, budget="200 tokens")
    assert retrieved() == of_option != retrieved("--budget", "4000")
    with mog_assets.open(copied_project.config, refresh=None) as project:
        read = project.ask(QUESTION, method="one-step").passages
    assert [p.text for p in read] == [p["text"] for p in of_option]


@pytest.mark.parametrize("budget", ["", "many tokens", "0 tokens", "-1 tokens", "1000", "9 characters", 0, 1.5, True])
def test_what_is_no_budget_is_said(sample_project, budget):
    with (
        mog_assets.open(sample_project.config, refresh=None) as project,
        pytest.raises(
            ConfigError, match="budget: expected an integer of at least 1.* or tokens, as '1000 tokens', got"
        ),
    ):
        project.search(QUESTION, budget=budget)


def test_without_a_tokenizer_of_the_model_the_remedy_is_named(copied_project):
    configured(copied_project, answering={"reader": "openai"}, llm={"model": "some-llama"})
    with (
        mog_assets.open(copied_project.config, refresh=None) as project,
        pytest.raises(
            ConfigError, match=r"got llm.model 'some-llama', which tiktoken does not know: set llm.tokenizer"
        ),
    ):
        project.search(QUESTION, budget="100 tokens")


def test_a_tokenizer_is_a_file_beside_the_settings(copied_project):
    (copied_project.folder / "model").mkdir()
    file = copied_project.folder / "model" / "tokenizer.json"
    file.write_bytes((embedded_folder("encoder") / "tokenizer.json").read_bytes())
    with mog_assets.open(copied_project.config, refresh=None) as project:
        expected = project.search(QUESTION, budget="150 tokens").passages
    configured(copied_project, answering={"reader": "openai"}, llm={"tokenizer": "model"})
    with mog_assets.open(copied_project.config, refresh=None) as project:
        assert project.search(QUESTION, budget="150 tokens").passages == expected
    file.write_text("{}", encoding="utf-8")
    with (
        mog_assets.open(copied_project.config, refresh=None) as project,
        pytest.raises(ConfigError, match="llm.tokenizer: expected a tokenizer.json, got"),
    ):
        project.search(QUESTION, budget="150 tokens")


def test_models_that_tiktoken_knows_need_no_setting():
    assert counter(None, "gpt-4")(["Garlic cloves", ""]) == counter("tiktoken:cl100k_base", "")(["Garlic cloves", ""])
    with pytest.raises(ConfigError, match="llm.tokenizer: expected an encoding of tiktoken, got 'x9k'"):
        counter("tiktoken:x9k", "")


def test_an_encoding_that_cannot_be_downloaded_is_said(monkeypatch, tmp_path):
    def away(url):
        raise requests.ConnectionError("no route")

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tiktoken.load, "read_file", away)
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})
    with pytest.raises(MogError, match="tiktoken cannot download the encoding of o200k_base .* TIKTOKEN_CACHE_DIR"):
        counter("tiktoken:o200k_base", "")
