"""The neural reader: windows, network, training, its file, the asset, and the roles that rest on it."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readers import NONE, QUOTED, REINTRODUCED
from shared import examples

from mog_assets.answer.neural import MARKED, Neural
from mog_assets.answer.reader import calibration
from mog_assets.answer.reader.model import SHIPPED, TrainedReader, encoded, shipped, source
from mog_assets.answer.reader.spans import LONGEST, ReaderSpan, pointed
from mog_assets.answer.reader.windows import QUESTION, TITLE, WINDOW, ReaderTokenizer, Window, parts, room, sentences
from mog_assets.answer.roles import RetrievedPassage
from mog_assets.resources import tensors
from mog_assets.resources.errors import MogError

HOSTILE = ["", "\0", "\n\n\n", "[CLS] [SEP] [MASK]", "漢字" * 120, "a" * 600, "…—’", "e\u0301\u200b", "§ 1. " * 100]


@cache
def tokenizer():
    return ReaderTokenizer(source())


@pytest.fixture(scope="module")
def words():
    """The tokenizer."""
    return tokenizer()


# Windows


@given(st.lists(st.one_of(st.text(max_size=200), st.sampled_from(HOSTILE)), min_size=1, max_size=8))
@settings(deadline=None, max_examples=examples(40))
def test_windows_hold_every_token_of_a_passage_in_order_and_are_never_too_long(pieces):
    words, text = tokenizer(), " Then it rained. ".join(pieces)
    question, title, tokens = words(["Did it rain?", "Weather", text])
    most, seen = room(question, title), []
    for start, end in parts(sentences(text, tokens), most):
        window = words.window(question, title, tokens.part(start, end))
        assert len(window.ids) <= WINDOW and 0 < end - start <= most
        assert (window.spans[window.body : -1] == tokens.spans[start:end]).all()
        assert not seen or start <= seen[-1] + 1 and end > seen[-1] + 1
        seen += range(max(start, seen[-1] + 1 if seen else 0), end)
    assert seen == list(range(len(tokens.ids)))


def test_a_long_question_and_a_long_title_are_cut_and_leave_room(words):
    question, title, text = words(["why " * 500, "name " * 500, "rain " * 500])
    assert room(question, title) == WINDOW - QUESTION - TITLE - 4
    window = words.window(question, title, text.part(0, room(question, title)))
    assert len(window.ids) == WINDOW and (window.kinds == 0).sum() == QUESTION + 3


def test_words_of_the_question_are_marked_in_title_and_text_but_not_everyday_ones(words):
    question, title, text = words(["What is the colour of the heron?", "Heron", "The heron is grey; its colour fades."])
    window = words.window(question, title, text)
    marked = [
        ("Heron", "The heron is grey; its colour fades.")[at >= window.body][a:b]
        for at, (a, b) in enumerate(window.spans.tolist())
        if window.kinds[at] == 2
    ]
    assert marked == ["Heron", "heron", "colour"]


def test_a_span_lies_in_the_title_or_in_the_text_and_has_at_most_so_many_tokens():
    rng = np.random.default_rng(0)
    for _ in range(50):
        count = int(rng.integers(6, 60))
        spans = np.stack([np.arange(count), np.arange(count) + 1], axis=1)
        spans[[0, 1, 2, -1]] = -1
        window = Window(np.zeros(count, np.int64), np.zeros(count, np.int64), spans, 5)
        logits = rng.normal(size=(count, 2))
        first, last, score = pointed(window, logits)
        allowed = [
            (i, j) for i in range(3, count - 1) for j in range(i, min(i + LONGEST, count - 1)) if (i >= 5) == (j >= 5)
        ]
        best = max(logits[i, 0] + logits[j, 1] for i, j in allowed) - logits[0].sum()
        assert (first, last) in allowed and score == pytest.approx(best)


# Calibration


def spans_of(*scores):
    """A span of every word of a text, with these scores."""
    text = "Ada wrote notes. Bob sang."
    words = [(m.group(), m.start(), m.end()) for m in re.finditer(r"\w+", text)]
    return ("", text), [ReaderSpan(word, 0, a, b, score) for (word, a, b), score in zip(words, scores, strict=False)]


def test_features_tell_how_far_a_span_leads_and_what_the_question_shares_with_its_sentence():
    passage, spans = spans_of(3.0, 1.0, -50.0)
    rows = calibration.features("Wrote the notes?", [passage], [*spans, spans[0]])
    assert calibration.FEATURES == ("score", "lead", "sentence", "passage")
    np.testing.assert_allclose(rows, [[3, 2, 1, 1], [1, -2, 1, 1], [-20, -23, 1, 1], [3, 2, 1, 1]])
    _, others = spans_of(0, 0, 0, 2.0)
    assert calibration.features("Wrote the notes?", [passage], others[3:]).tolist() == [[2, 22, 0, 1]]
    # A question of everyday words shares nothing.
    assert calibration.features("Is it the?", [passage], spans)[0, 2:].tolist() == [0, 0]


# The file


def test_the_reader_that_comes_with_the_package_is_small_and_says_what_it_is():
    assert SHIPPED.stat().st_size <= 1 << 20
    assert {"calibration", "trained on", "exact match", "F1", "calibration error"} <= shipped().facts.keys()
    assert SHIPPED.with_suffix(".md").is_file()


def test_a_file_that_is_no_reader_of_this_version_is_refused_with_the_remedy():
    data = SHIPPED.read_bytes()
    arrays, facts = tensors.decode(data)
    odd = {**arrays, "head.bias": np.full(2, np.nan, np.float16)}
    facts = {name: value for name, value in facts.items() if name != "reader"}
    others = [
        data[: len(data) // 2],
        b"",
        b"\x80\x04cos\nsystem\n",
        tensors.encode(arrays, facts),
        encoded({name: array for name, array in arrays.items() if name != "kinds"}, facts),
        encoded({**arrays, "kinds": arrays["kinds"][:, :5]}, facts),
        encoded(odd, facts),
    ]
    for other in others:
        with pytest.raises(MogError, match=r"answering\.reader: x: expected a reader of version .*, got .*: reinstall"):
            TrainedReader(other, "x").best("Who?", [("", "Ada.")])


# Roles


def test_an_open_question_is_answered_with_a_span(neural):
    found = neural.answer(REINTRODUCED, QUOTED)
    assert "2004" in found.value and len(found.value) < 30
    assert found.usage.calls == 1 and found.usage.tokens_in > 20 and found.failure == ""


def test_an_answer_says_where_it_stands_and_whether_it_is_certain(neural):
    span = neural.answer(REINTRODUCED, QUOTED).span
    assert "2004" in QUOTED[0].text[span.start : span.end] and span.passage == 0
    assert span.certain == (span.probability >= shipped().certain) and 0.5 < shipped().certain < 1
    assert neural.answer(NONE, QUOTED[1:]).span.probability < MARKED


def test_passages_without_an_answer_are_said_to_have_none(neural):
    for asked, passages in ((NONE, QUOTED[1:]), (REINTRODUCED, [])):
        found = neural.answer(asked, passages)
        assert found.value is None and found.failure
        assert found.declined == bool(passages)


def test_an_answer_does_not_depend_on_what_was_read_before(neural):
    fresh = Neural(neural.encode, "e", network=TrainedReader(SHIPPED.read_bytes(), "x"))
    assert [neural.answer(REINTRODUCED, QUOTED[::-1]).value for _ in range(2)] == [
        fresh.answer(REINTRODUCED, QUOTED).value
    ] * 2


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_can_be_read(neural, text):
    passages = [RetrievedPassage("c", "d", text[:100], text), QUOTED[0]]
    assert "2004" in neural.answer(REINTRODUCED, passages).value
    found = neural.answer(replace(REINTRODUCED, question=text), passages)
    assert found.declined if found.value is None else found.value in text[:100] + text + QUOTED[0].text
