"""Chunkers of level 1: spans that tile any text, what each promises of them, and what a changed one rebuilds."""

import re
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from incremental import HERON, NEWT, OTTER, Project, encoder, folder, nothing_is_drawn  # noqa: F401

from mog_assets.config import ChunkerSettings
from mog_assets.documents.documents import write_documents as write_bucket
from mog_assets.documents.reading import read_corpus
from mog_assets.serve import project as serving
from mog_assets.text.chunkers import CHUNKERS, Options, fixed, recursive, semantic, sentences, split_bucket
from mog_assets.text.cuts import sentence_ends, token_starts, unit_chars, units

PARTS = ["Dr", "A.", "e.g", "word ", "x" * 30]
PROSE = st.lists(
    st.sampled_from([*"aBé?!…'\")。！ \n\u0301\u2028\u3000\U0001f600", ". ", ".\n", "\r\n", "\n\n", *PARTS]),
    max_size=60,
).map("".join)
TEXTS = st.one_of(PROSE, st.text(max_size=200), st.text("xyz", max_size=200), st.text(" \n\t\u3000", max_size=200))
ANY_CHUNKER = sorted(CHUNKERS)


def random_vectors(text, finest_chars, seed=0):
    """Unit vectors of as many units as a text has."""
    rows = np.random.default_rng(seed).normal(size=(len(units(text, unit_chars(finest_chars))), 4))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)


@cache
def untrained():
    """The file of a scorer that has learned nothing, for vectors of four entries."""
    from mog_assets.papers.learned_chunking.learned import Scorer, Shape, network, stored

    shape = Shape(4, width=8, layers=1, heads=2)
    weights = {name: tensor.detach().numpy() for name, tensor in network(shape).state_dict().items()}
    path = Path(tempfile.mkdtemp()) / "chunker.safetensors"
    path.write_bytes(stored(Scorer(weights, {"shape": vars(shape), "penalty": 1.0})))
    return path


def cut_by(name, text, finest_chars, tokens=None):
    chunker = CHUNKERS[name]
    vectors = random_vectors(text, finest_chars) if chunker.sentence_vectors else None
    return chunker.make(Options(finest_chars, tokens, untrained() if chunker.trained else None))(text, vectors)


def pieces(text, spans):
    return [text[start:end] for start, end in spans]


# Every chunker


@pytest.mark.whole
@pytest.mark.parametrize("name", ANY_CHUNKER)
@given(TEXTS, st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_spans_tile_any_text(name, text, finest_chars):
    spans = cut_by(name, text, finest_chars)
    assert spans.dtype == np.int64 and spans.shape == (len(spans), 2)
    assert "".join(pieces(text, spans)) == text
    assert (spans[:, 0] < spans[:, 1]).all()
    assert spans[:, 0].tolist() == [0, *spans[:-1, 1].tolist()][: len(spans)]


@pytest.mark.whole
@pytest.mark.parametrize(
    ("name", "times"),
    [("sentences", 1), ("fixed", 1), ("recursive", 1), ("paragraphs", 2), ("semantic", 2), ("learned", 2)],
)
@given(TEXTS, st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_no_chunk_is_longer_than_its_chunker_promises(name, times, text, finest_chars):
    assert (np.diff(cut_by(name, text, finest_chars)) <= times * finest_chars).all()


@pytest.mark.whole
@pytest.mark.parametrize("name", ANY_CHUNKER)
@pytest.mark.parametrize("text", ["x", ".", " ", "\n", '."', ". ", ".a"])
def test_a_text_of_one_thing_a_hundred_thousand_times_is_cut(name, text):
    """Each took the square of its length, hours, with a pattern that tries every full stop of a line of them."""
    # A scorer looks at every sentence, which takes its time, though no square of it.
    times = 4_000 if CHUNKERS[name].trained else 100_000
    spans = cut_by(name, text * times, 500)
    assert spans[-1, 1] == len(text) * times
    assert len(spans) >= len(text) * times // 1000


# Sentences


def ends_by_hand(text):
    """Sentence ends as text/cuts.py states them, a character at a time."""

    def after(start, characters):
        while start < len(text) and (text[start].isspace() if characters is None else text[start] in characters):
            start += 1
        return start

    ends, i = [], 0
    while i < len(text):
        here, i = i, i + 1
        if text[here] == "\n":
            i = after(here, None)
            ends.append(i)
        elif text[here] in "。！？":
            i = after(after(here, "。！？"), None)
            ends.append(i)
        elif text[here] in ".!?…":
            closed = after(after(here, ".!?…"), "\"'”’)]")
            stop = after(closed, None)
            if closed < stop < len(text) and not "a" <= text[stop] <= "z":
                abbreviated = text[here] == "." and re.search(r"\b([A-Z]|Dr|e\.g)$", text[:here])
                if not abbreviated or "\n" in text[here:stop]:
                    ends.append(stop)
                i = stop
    return ends if ends[-1:] == [len(text)] or not text else [*ends, len(text)]


@given(PROSE)
@settings(max_examples=300, deadline=None)
def test_sentences_end_where_the_rules_say(text):
    assert sentence_ends(text).tolist() == ends_by_hand(text)


@given(PROSE, st.integers(1, 60))
@settings(max_examples=200, deadline=None)
def test_sentences_are_packed_as_tightly_as_they_fit(text, finest_chars):
    ends, start = ends_by_hand(text), 0
    for chunk_start, chunk_end in sentences(text, finest_chars).tolist():
        assert chunk_start == start
        fitting = [end for end in ends if start < end <= start + finest_chars]
        breaks = [i + 1 for i in range(start + 1, min(start + finest_chars, len(text))) if text[i].isspace()]
        assert chunk_end == (fitting or breaks or [start + finest_chars])[-1]
        start = chunk_end


@given(TEXTS, st.integers(1, 60))
@settings(max_examples=100, deadline=None)
def test_units_are_sentences_and_pieces_of_those_that_are_too_long(text, longest):
    ends = units(text, longest).tolist()
    of_sentences = set(sentence_ends(text).tolist())
    assert of_sentences <= set(ends)
    for start, end in zip([0, *ends], ends, strict=False):
        assert 0 < end - start <= longest
        assert end in of_sentences or text[end - 1].isspace() or end - start == longest


# Fixed


@given(TEXTS, st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_fixed_chunks_have_exactly_the_characters_that_are_asked_for(text, finest_chars):
    whole, rest = divmod(len(text), finest_chars)
    assert np.diff(fixed(text, finest_chars)).ravel().tolist() == [finest_chars] * whole + [rest] * (rest > 0)


@given(TEXTS, st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_fixed_chunks_have_exactly_the_tokens_that_are_asked_for(text, tokens):
    spans = fixed(text, 50, tokens)
    counts = [len(token_starts(piece)) for piece in pieces(text, spans)]
    assert all(count == tokens for count in counts[:-1])
    assert sum(counts) == len(token_starts(text))
    assert "".join(pieces(text, spans)) == text
    assert all(not piece[0].isspace() for piece in pieces(text, spans)[1:])


# Recursive


@pytest.mark.parametrize(
    ("text", "finest_chars", "expected"),
    [
        ("one\n\ntwo\n\nthree", 12, ["one\n\ntwo\n\n", "three"]),
        ("a b\nc d\n\ne", 4, ["a b\n", "c d\n", "\n", "e"]),
        ("ab cd\nefgh ij\n\nk", 6, ["ab cd\n", "efgh ", "ij\n", "\n", "k"]),
        ("abcdefgh ij", 3, ["abc", "def", "gh ", "ij"]),
        ("a\r\nb  c\r\n\r\nd", 4, ["a\r\n", "b  ", "c\r\n", "\r\nd"]),
    ],
)
def test_recursive_packs_blank_lines_then_lines_then_words(text, finest_chars, expected):
    """The pieces are what langchain-text-splitters 1.1.3 gives, with the options that `recursive` names."""
    assert pieces(text, recursive(text, finest_chars)) == expected


@given(st.text(st.sampled_from("ab\r\n .é"), max_size=120), st.integers(1, 40))
@settings(max_examples=200, deadline=None)
def test_recursive_splits_as_langchain_does(text, finest_chars):
    library = pytest.importorskip("langchain_text_splitters")
    splitter = library.RecursiveCharacterTextSplitter(
        chunk_size=finest_chars, chunk_overlap=0, keep_separator="end", strip_whitespace=False
    )
    assert pieces(text, recursive(text, finest_chars)) == splitter.split_text(text)


# Semantic


def steps(*cosines):
    """Vectors in a plane; each has the given cosine with the next."""
    angles = np.cumsum([0, *np.arccos(cosines)])
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float16)


def test_semantic_breaks_where_neighbouring_windows_differ_most():
    text = "Ab cd ef. " * 12
    vectors = np.repeat(np.eye(3, dtype=np.float16), [3, 4, 5], axis=0)
    assert np.diff(semantic(text, 40, vectors)).ravel().tolist() == [30, 40, 50]


def test_a_stretch_that_is_too_long_is_broken_at_its_own_largest_drop():
    text = "Ab cd ef. " * 20
    # After the first 120 characters every drop is greater than the greatest of those before, which is at 60.
    spans = semantic(text, 40, steps(*[0.999] * 5, 0.95, *[0.999] * 6, *[0.5] * 7))
    assert spans[0].tolist() == [0, 60] and (np.diff(spans) <= 80).all()


def test_no_crumb_is_left_where_there_is_another_break():
    text = "Ab cd ef. " * 8
    vectors = np.repeat(np.eye(2, dtype=np.float16), [1, 7], axis=0)
    lengths = np.diff(semantic(text, 48, vectors)).ravel()
    assert len(lengths) == 2 and lengths.min() >= 12


@given(st.integers(0, 10_000), st.integers(2, 60))
@settings(max_examples=100, deadline=None)
def test_semantic_chunks_are_about_as_long_as_asked(seed, count):
    rng = np.random.default_rng(seed)
    text = "".join("W" + "x" * int(n) + ". " for n in rng.integers(5, 40, count))
    lengths = np.diff(semantic(text, 100, random_vectors(text, 100, seed))).ravel()
    assert lengths.max() <= 200
    assert lengths.min() >= min(25, len(text))
    assert len(lengths) == pytest.approx(-(-len(text) // 100), abs=2 + 0.25 * len(lengths))


def test_other_vectors_than_the_texts_are_refused():
    with pytest.raises(ValueError, match="vectors must have a row for each of the 2 units of the text, got 3"):
        semantic("One is here. Two is here.", 50, np.ones((3, 4), np.float16))


POND = [
    "The grey heron stands still in the shallow water of the pond.",
    "The heron waits for a small fish and strikes with its bill.",
    "Frogs and newts lay their eggs among the water plants of the pond.",
    "Herons nest in tall trees not far from the water.",
]
BANK = [
    "The central bank raised its interest rate by half a percent.",
    "Mortgage lenders passed the higher interest rate on to borrowers.",
    "Shares of commercial banks fell after the announcement of the rate.",
    "Economists expect inflation to fall as borrowing becomes dearer.",
]


@pytest.mark.parametrize("topics", [(POND, BANK), (BANK, POND), (POND[:3], BANK)])
def test_semantic_breaks_where_the_topic_changes(topics, encoder):
    first, second = (" ".join(topic) + " " for topic in topics)
    text = first + second
    finest_chars = -(-len(text) // 2)
    ends = units(text, unit_chars(finest_chars)).tolist()
    vectors = encoder.encode([text[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)])
    assert pieces(text, semantic(text, finest_chars, vectors)) == [first, second]


# What a changed chunker rebuilds


def rows_of(project, key="chunks/level_1"):
    return {corpus: project.files(key, corpus) for corpus in project.settings.corpora}


@pytest.fixture
def ponds(folder, encoder):
    """A file of three documents and a folder of one, built with the default chunker."""
    project = Project(folder, encoder)
    for name, text in {"a": HERON + OTTER, "b": OTTER + NEWT, "c": NEWT + HERON + OTTER}.items():
        project.put("file", name, text, title="Ponds")
    project.put("folder", "a", NEWT + OTTER)
    project.run()
    return project


def choose(project, **chunker):
    project.settings = project.settings.model_copy(update={"chunker": ChunkerSettings(**chunker)})


def test_a_changed_chunker_cuts_again_and_only_then(ponds):
    first, documents = rows_of(ponds), rows_of(ponds, "documents")
    seen = [first]
    for chunker in ({"name": "fixed"}, {"name": "fixed", "tokens": 9}, {"name": "recursive"}, {"name": "semantic"}):
        choose(ponds, **chunker)
        assert ponds.run()["chunks/level_1"] == {"documents split": 4, "documents unchanged": 0}
        assert ponds.run() == {}
        assert rows_of(ponds) not in seen
        seen.append(rows_of(ponds))
    choose(ponds, name="sentences")
    assert "sentence_vectors" not in ponds.run()
    assert rows_of(ponds) == first and rows_of(ponds, "documents") == documents


def test_only_new_sentences_are_encoded_and_all_is_as_from_nothing(ponds):
    choose(ponds, name="semantic")
    ponds.run()
    ponds.put("file", "c", NEWT + "The kingfisher dives into the pond. " + HERON + OTTER, title="Ponds")
    recomputed = ponds.run()
    assert recomputed["sentence_vectors"] == {"texts encoded": 1}
    assert recomputed["chunks/level_1"] == {"documents split": 1, "documents unchanged": 2}
    other = Project(ponds.folder, ponds.encoder, "rebuilt", chunker="semantic")
    other.run()
    for key in ("sentence_vectors", "chunks/level_1", "embeddings/level_2"):
        assert rows_of(ponds, key) == rows_of(other, key)


def bucket(folder_, texts):
    """A bucket of these documents."""
    lines = [f'{{"id": "{name}", "text": "{text}"}}' for name, text in texts.items()]
    (folder_ / "source.jsonl").write_text("\n".join(lines), encoding="utf-8")
    write_bucket(read_corpus(folder_ / "source.jsonl").documents, folder_ / "documents")
    return str(folder_ / "documents")


def test_rows_of_another_chunker_are_not_reused(tmp_path):
    documents, held = bucket(tmp_path, {"a": HERON, "b": OTTER}), str(tmp_path / "held")
    split_bucket(documents, held, "fixed", 60, tokens=5)
    out = str(tmp_path / "out")
    assert split_bucket(documents, out, "fixed", 60, held, tokens=5) == 0
    assert split_bucket(documents, out, "fixed", 60, held, tokens=6) == 2
    assert split_bucket(documents, out, "fixed", 60, held) == 2
    assert split_bucket(documents, out, "recursive", 60, held) == 2
    assert split_bucket(documents, out, "fixed", 61, held, tokens=5) == 2


def test_rows_of_other_vectors_are_not_reused(tmp_path):
    documents = bucket(tmp_path, {"a": HERON * 2, "b": OTTER * 2, "c": NEWT})
    found = [random_vectors(text, 60) for text in (HERON * 2, OTTER * 2, NEWT)]
    np.save(tmp_path / "vectors.npy", np.concatenate(found))
    arguments = documents, str(tmp_path / "held"), "semantic", 60
    assert split_bucket(*arguments, vectors=str(tmp_path / "vectors.npy")) == 3
    found[1] = random_vectors(OTTER * 2, 60, seed=1)
    np.save(tmp_path / "other.npy", np.concatenate(found))
    again = documents, str(tmp_path / "out"), "semantic", 60, str(tmp_path / "held")
    assert split_bucket(*again, vectors=str(tmp_path / "other.npy")) == 1
    split_bucket(documents, str(tmp_path / "fresh"), "semantic", 60, vectors=str(tmp_path / "other.npy"))
    assert Path(tmp_path / "out").read_bytes() == Path(tmp_path / "fresh").read_bytes()


# The whole graph


@pytest.mark.whole
@pytest.mark.full
def test_any_chunker_works_with_every_part_of_the_graph(tmp_path, make_project, write_documents, materialise_project):
    texts = {"pond": " ".join(POND), "bank": " ".join(BANK), "both": " ".join(POND[:2] + BANK[:2]), "heron": HERON}
    source = write_documents(tmp_path / "texts.jsonl", texts.items())
    groups = ["default", "papers"]
    values = {"corpora": {"texts": {"path": str(source)}}, "levels": 2, "finest_chars": 100, "methods": groups}
    question = "Why did the bank raise its interest rate?"
    for chunker in ("semantic", "recursive"):
        project = make_project(tmp_path, {**values, "chunker": chunker})
        report = materialise_project(project.settings)
        assert report.failures == []
        built = {step["asset"] for step in report.steps}
        assert {"chunks/level_1", "chunks/level_2", "bm25/level_1", "embeddings/level_2", "topics/assigned"} <= built
        for method in ("fixed-2", "dense:fused-paper-1"):
            found = serving.open(project.settings, ["texts"], keep=False).search(question, method=method, k=2).passages
            assert [p.text for p in found] == [texts[p.document][p.start : p.end] for p in found]
            assert found[0].document in ("bank", "both")
