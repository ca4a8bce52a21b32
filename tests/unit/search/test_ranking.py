"""Candidates, features, passages and the choice, against their definitions."""

import numpy as np
import pandas as pd
import pytest
from candidate_rows import candidates_of, layout_of
from hypothesis import given
from hypothesis import strategies as st

from mog_assets.config import settings_model
from mog_assets.evaluate.choice import choose
from mog_assets.evaluate.measures import evaluate
from mog_assets.questions.sets import Evidence, Question
from mog_assets.search.candidates import ordered
from mog_assets.search.controls import pieces as disjoint
from mog_assets.search.features import Components, _ranks, names, of_candidates, table
from mog_assets.search.methods import needs, parse
from mog_assets.search.passages import Passages, fitting, joined
from mog_assets.search.relevance import Relevance, fixed_order
from mog_assets.search.training import sample_questions

SIZES = st.lists(st.lists(st.integers(1, 700), min_size=1, max_size=6), min_size=1, max_size=4)


@given(st.data())
def test_a_rank_is_the_number_of_greater_scores_in_the_group(data):
    groups = sorted(data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=20)))
    numbers = st.floats(-3, 3, width=32).map(lambda x: round(x, 1))
    scores = np.array(data.draw(st.lists(numbers, min_size=len(groups), max_size=len(groups))), np.float32)[:, None]
    group = np.array(groups)
    wanted = [((group == g) & (scores[:, 0] > s)).sum() for g, s in zip(groups, scores[:, 0], strict=True)]
    assert _ranks(scores, group)[:, 0].tolist() == wanted


@given(SIZES, st.data())
def test_recall_of_an_order_is_that_of_the_measures(sizes, data):
    layout = layout_of(sizes)
    pieces = np.array(sorted(data.draw(st.sets(st.integers(0, layout.count(1) - 1), min_size=1))))
    evidence = []
    for _ in range(data.draw(st.integers(1, 3))):
        document = data.draw(st.integers(0, len(sizes) - 1))
        start = data.draw(st.integers(0, sum(sizes[document]) - 1))
        end = data.draw(st.integers(start + 1, sum(sizes[document])))
        evidence.append(Evidence("c", f"d{document}", start, end))
    question = Question("q", "?", "", "test", evidence=tuple(evidence))
    scores = np.array(data.draw(st.lists(st.integers(0, 5), min_size=len(pieces), max_size=len(pieces))), float)
    found = found_in(layout, pieces, scores)
    order = ordered(found, scores)
    spans = [(int(doc.removeprefix("d")), start, end) for _, doc, start, end in disjoint(question)]
    own = Relevance.located(found, [spans], layout).recall(order)

    spans, document = layout.spans[pieces[order]], layout.document_of[pieces[order]]
    runs = pd.DataFrame(
        {
            "question_set": "s",
            "split": "test",
            "question": "q",
            "method": "m",
            "rank": np.arange(len(order)) + 1,
            "corpus": "c",
            "doc": [f"d{i}" for i in document],
            "start": spans[:, 0],
            "end": spans[:, 1],
            "tokens": 1,
        }
    )
    assert own[0] == pytest.approx(evaluate(runs, {"s": [question]}, 2)["ER"][0])


def found_in(layout, pieces, scores):
    document = layout.document_of[pieces]
    sizes = np.diff(layout.spans[pieces], axis=1)[:, 0]
    place = [pieces - layout.offsets[document], np.diff(layout.offsets)[document], sizes]
    return candidates_of(np.zeros(len(pieces)), pieces, scores, np.stack(place, axis=1))


def test_a_level_is_ordered_chunk_by_chunk_and_read_in_order():
    layout = layout_of([[100, 100, 100, 100]])
    found = found_in(layout, np.arange(4), np.zeros(4))
    chunk = layout.containing(np.arange(4), 2)
    assert fixed_order(found, chunk, [np.array([1.0, 1.0, 2.0, 2.0])]).tolist() == [2, 3, 0, 1]


def pieces_as_passages(layout, ranked):
    """One question's pieces in ranked order, as a ranking gives them."""
    place = np.arange(len(ranked))
    spans = layout.spans[ranked]
    level = np.ones(len(ranked), np.int64)
    question = np.zeros(len(ranked), np.int64)
    return Passages(question, place, layout.document_of[ranked], spans[:, 0], spans[:, 1], level, -place.astype(float))


def test_chunks_that_overlap_are_joined_without_repeating_text():
    layout = layout_of([[100, 100, 100, 100], [100]])
    zero = np.zeros(3, np.int64)
    # Level 2 of the first document, its third piece alone, and the other document.
    found = Passages(
        zero, np.arange(3), np.array([0, 0, 1]), np.array([0, 100, 0]), np.array([200, 300, 100]), zero, -np.arange(3.0)
    )
    made = joined(found, layout, 350)
    assert list(zip(made.document, made.start, made.end, made.level, strict=True)) == [(0, 0, 300, 3)]
    assert list(joined(found, layout, 400).document) == [0, 1]


def test_passages_of_several_spans_fit_as_a_whole_or_not_at_all():
    zero = np.zeros(4, np.int64)
    rank = np.array([0, 0, 1, 2])
    found = Passages(zero, rank, np.arange(4), zero, np.array([300, 300, 300, 50]), zero, -rank.astype(float))
    assert fitting(found, 700).rank.tolist() == [0, 0]
    assert fitting(found, 100).rank.tolist() == [0, 0]
    assert fitting(found, 950).rank.tolist() == [0, 0, 1, 2]


@given(SIZES, st.data())
def test_passages_hold_each_taken_piece_once_in_contiguous_text(sizes, data):
    layout = layout_of(sizes)
    ranked = np.array(data.draw(st.permutations(range(layout.count(1)))))
    budget = data.draw(st.integers(1, 3000))
    found = joined(pieces_as_passages(layout, ranked), layout, budget)
    held = [
        set(zip([document] * (end - start), range(start, end), strict=True))
        for document, start, end in zip(found.document.tolist(), found.start.tolist(), found.end.tolist(), strict=True)
    ]
    every = set().union(*held)
    assert len(every) == sum(map(len, held))
    length = np.cumsum(np.diff(layout.spans[ranked], axis=1)[:, 0])
    count = max(int((length <= budget).sum()), 1)
    wanted = set()
    for piece in ranked[:count].tolist():
        start, end = layout.spans[piece].tolist()
        wanted |= {(int(layout.document_of[piece]), at) for at in range(start, end)}
    assert every == wanted
    # Neighbours are joined, and passages stand in the order of their best piece.
    places = set(zip(found.document.tolist(), found.start.tolist(), strict=True))
    assert not places & set(zip(found.document.tolist(), found.end.tolist(), strict=True))
    assert found.rank.tolist() == list(range(len(found.rank)))
    assert (np.diff(found.score) < 0).all()


@given(SIZES, st.data(), st.integers(1, 4))
def test_k_passages_are_at_most_k(sizes, data, k):
    layout = layout_of(sizes)
    ranked = np.array(data.draw(st.permutations(range(layout.count(1)))))
    found = joined(pieces_as_passages(layout, ranked), layout, k=k)
    assert 1 <= len(found.rank) <= k


def test_components_are_the_same_whatever_sign_the_library_gives():
    vectors = np.random.default_rng(0).normal(size=(60, 20)).astype(np.float32)
    axes = Components.of(vectors).axes
    assert (axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] > 0).all()


def candidates_of_questions(sizes):
    """Candidates of as many questions as sizes, of two experts, one of which scores pieces itself."""
    draw, n = np.random.default_rng(0), sum(sizes)
    question = np.repeat(np.arange(len(sizes)), sizes)
    piece = np.concatenate([np.sort(draw.choice(40, size, replace=False)) for size in sizes])
    place = np.stack([piece % 8, np.full(n, 8), draw.integers(50, 200, n), np.zeros(n, int)], axis=1)
    scores, beside = draw.random((n, 2)), draw.random((n, 2, 1))
    return candidates_of(question, piece, scores, place, beside=beside)


def test_features_of_some_questions_are_those_computed_for_all():
    found, words = candidates_of_questions([5, 12, 3, 20]), np.array([3, 7, 2, 9])
    kept = np.array([1, 3])
    rows = np.isin(found.question, kept)
    own = of_candidates(found.of(kept), [0], words[kept])
    assert np.array_equal(of_candidates(found, [0], words)[rows], own)


def test_columns_of_features_are_in_the_order_of_their_names():
    found, words = candidates_of_questions([5, 12]), np.array([3, 7])
    components = np.arange(32, dtype=np.float32).reshape(2, 16) + 100
    answered = np.arange(51, dtype=np.float32).reshape(17, 3) + 500
    of = table(of_candidates(found, [0], words), components[found.question], answered)
    columns = dict(zip(names(["bm25-1", "bm25-2"], ["bm25-1"]), of.T, strict=True))
    best = [found.scores[found.question == number, 0].max() for number in range(2)]
    assert columns["words of question"].tolist() == words[found.question].tolist()
    assert np.allclose(columns["best bm25-1"], np.array(best)[found.question])
    assert columns["answers near this place"].tolist() == answered[:, 0].tolist()
    assert columns["component 16"].tolist() == components[found.question, 15].tolist()


DOCUMENTS = [f"d{i // 3}" for i in range(120)]


def recalls(**means):
    noise = np.random.default_rng(0).normal(0, 0.05, 120)
    return {name: np.clip(mean + noise * (i + 1) % 0.1, 0, 1) for i, (name, mean) in enumerate(means.items())}


def test_questions_that_are_drawn_are_held_out_as_often_as_others():
    questions = [Question(f"q{i}", "?", "open", "train", evidence=(Evidence("c", f"d{i}", 0, 1),)) for i in range(8000)]
    kept = sample_questions(questions, 1000)
    assert len(kept) == 1000
    # Another question moves hardly any.
    assert len({q.id for q in kept} & {q.id for q in sample_questions(questions[1:], 1000)}) >= 999


def test_a_trained_ranking_is_used_where_it_is_significantly_better():
    chosen = choose(recalls(fused=0.6, **{"dense-2": 0.61}, mog=0.7, mix=0.8), ("mog", "mix"), DOCUMENTS, 0)
    assert chosen.method == "mix" and "0.8" in chosen.why and chosen.rows[0]["method"] == "mix"
    chosen = choose(recalls(fused=0.6, **{"dense-2": 0.5}, mog=0.5, mix=0.3), ("mog", "mix"), DOCUMENTS, 0)
    assert chosen.method == "fused" and "no other ranking" in chosen.why
    # A fixed level, too, if it is better.
    chosen = choose(recalls(fused=0.5, **{"dense-2": 0.8}, mog=0.6, mix=0.7), ("mog", "mix"), DOCUMENTS, 0)
    assert chosen.method == "dense-2"


def test_rounding_does_not_decide_between_trained_rankings_of_one_quality():
    draw = np.random.default_rng(0)
    base, noise = draw.random(120) / 2, draw.normal(0, 0.05, (3, 120))
    names = ("tuned", "mog", "mix")
    plain = {name: base + 0.1 + own - own.mean() for name, own in zip(names, noise, strict=True)}
    chosen = [choose({"fused": base, **plain, n: plain[n] + 0.003}, names, DOCUMENTS, 0) for n in names]
    assert [choice.method for choice in chosen] == ["tuned"] * 3
    assert "is not significantly better than `tuned`, which is simpler" in chosen[2].why and "`mix` (" in chosen[2].why
    # More parameters are worth a clear gain, and a small one that is no chance.
    clear = {"fused": base, "tuned": base + 0.1 + noise[0] - noise[0].mean(), "mix": base + 0.12 + noise[1]}
    assert choose(clear, names, DOCUMENTS, 0).method == "mix"
    sure = {"fused": base, "tuned": base + 0.1, "mix": base + 0.105}
    assert choose(sure, names, DOCUMENTS, 0).method == "mix"


def test_a_trained_ranking_that_is_worse_is_said_to_be_and_by_what_it_was_decided():
    worse, same = (choose(recalls(fused=0.6, mog=m), ("mog",), DOCUMENTS, 0, ", by documents") for m in (0.3, 0.6))
    assert "`mog` is worse with 0.3" in worse.why and "`mog` has 0." in same.why
    assert worse.why.endswith("documents, by documents)")


@pytest.mark.whole
def test_the_needs_of_methods_are_what_they_read():
    trained = {"q": {"path": "q", "corpora": ["c"], "train": ["t"]}}
    settings = [
        settings_model().model_validate({"corpora": {"c": {"path": "x"}}, "levels": 2, "question_sets": sets})
        for sets in ({}, trained)
    ]

    def keys(name, which=1):
        return set(needs([parse(name, settings[which])], settings[which]).keys)

    base = {"documents", "chunks/level_1", "tokens"}
    bm25, vectors = {"bm25/level_1", "statistics"}, {"embeddings/level_1", "embeddings/level_2"}
    assert keys("fixed-1") == base | bm25
    assert keys("dense-1") == base | bm25 | vectors | {"neighbours"}
    assert keys("fused") == keys("dense-1") | {"names", "mentions"}
    assert keys("multihop") == keys("fused")
    assert keys("mog") == keys("fused") | {"router"}
    assert keys("tuned") == keys("fused") | {"tuned"}
    assert keys("mix") == keys("fused") | {"mix"}
    assert keys("auto") == keys("tuned") | keys("mog") | keys("mix") | {"method"}
    assert keys("auto", 0) == keys("fused") | {"method"}
