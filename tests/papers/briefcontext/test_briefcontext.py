"""BriefContext's preflight, map-reduce and roles."""

import json

import pandas as pd
import pytest
from readers import CHOICE, PASSAGES, Library, Scripted, means

from mog_assets.answer.extractive import bm25_scores
from mog_assets.answer.roles import AnswerRequest, RetrievedPassage
from mog_assets.papers.briefcontext.answerer import briefcontext
from mog_assets.papers.briefcontext.preflight import by_bm25, by_vectors, overlap
from mog_assets.papers.briefcontext.preflight_quality import Confusion, preflight_cases, preflight_quality
from mog_assets.papers.briefcontext.roles import EXTRACT, REDUCE
from mog_assets.questions.sets import Evidence, Question
from mog_assets.resources.errors import MogError


def sixteen():
    return [RetrievedPassage("med", f"d{i}", f"title {i}", f"text number {i}.") for i in range(16)]


def reversed_ranking(query, passages):
    return list(range(len(passages)))[::-1]


def same_ranking(query, passages):
    return list(range(len(passages)))


def test_preflight_figures_of_the_paper():
    counts = Confusion(tp=426, fp=423, fn=34, tn=235)
    assert round(counts.precision, 4) == 0.5018
    assert round(counts.recall, 4) == 0.9261
    assert round(counts.f1, 4) == 0.6509
    nothing = Confusion.of([False], [False])
    assert (nothing.precision, nothing.recall, nothing.f1) == (None, None, None)


def test_overlap_is_of_the_first_three():
    assert overlap([0, 1, 2, 3], [2, 1, 0, 3]) == 1
    assert overlap([0, 1, 2, 3], [3, 2, 4, 0]) == 0.2
    assert overlap([0, 1, 2, 3], [2, 1, 3, 0]) == 0.5
    assert overlap([0, 1, 2, 3], [4, 5, 6, 0]) == 0
    assert overlap([], []) == 1


def test_rankings_that_agree_make_one_prompt():
    model = Scripted()
    row = briefcontext([CHOICE], means(model, Library(sixteen())), rerank=same_ranking)[0]
    assert row.details.get("preflight") == {"iou": 1.0, "map_reduce": False}
    assert (row.answer, row.details.get("extractions"), row.usage.calls) == ("A", None, 1)
    assert len(row.passages) == 16
    assert not model.asked["extract"]


@pytest.mark.parametrize(("partitions", "size"), [(4, 4), (2, 8), (3, None)])
def test_map_reduce_runs_over_contiguous_partitions_in_the_order_of_retrieval(partitions, size):
    extracts = [f"piece {i}" for i in range(partitions)]
    model = Scripted(extract=extracts)
    library = Library(sixteen())
    row = briefcontext([CHOICE], means(model, library), partitions=partitions, rerank=reversed_ranking)[0]
    assert library.asked == [([CHOICE.question], 16, "")]
    assert row.details.get("preflight") == {"iou": 0.0, "map_reduce": True}
    assert (row.answer, row.details.get("extractions"), row.usage.calls) == ("B", extracts, partitions + 1)
    seen = [[i for i in range(16) if f"text number {i}.\n" in prompt] for prompt in model.asked["extract"]]
    assert [i for part in seen for i in part] == list(range(16))
    assert {len(part) for part in seen} == ({size} if size else {5, 6})
    # The question stands before the documents of a map, and before and after the extractions of a reduce.
    prompt, reduce = model.asked["extract"][0], model.asked["reduce"][0]
    assert prompt.index(CHOICE.question) < prompt.index("text number 0.")
    places = [reduce.index(text) for text in extracts]
    assert places == sorted(places)
    assert reduce.index(CHOICE.question) < places[0] and places[-1] < reduce.rindex(CHOICE.question)


def test_empty_extractions_are_dropped_before_the_reduce():
    model = Scripted(extract=["first", "No relevant information.", " no relevant information ", "last"])
    row = briefcontext([CHOICE], means(model, Library(sixteen())), rerank=reversed_ranking)[0]
    assert row.details.get("extractions") == ["first", "", "", "last"]
    assert "extraction 2 of 2" in model.asked["reduce"][0]
    assert "relevant information\n" not in model.asked["reduce"][0]


def test_extractions_that_fail_are_noted_and_cost_the_answer_only_where_all_do():
    down = MogError("llm: did not answer")
    row = briefcontext(
        [CHOICE], means(Scripted(extract=["first", down, "third", down]), Library(sixteen())), rerank=reversed_ranking
    )[0]
    assert (row.answer, row.details.get("extractions")) == ("B", ["first", "third"])
    assert [f["role"] for f in row.failures] == ["extract", "extract"]
    model = Scripted(extract=[down])
    row = briefcontext([CHOICE], means(model, Library(sixteen())), rerank=reversed_ranking)[0]
    assert (row.answer, row.failure) == (None, "extract: no partition could be read: llm: did not answer")
    assert not model.asked["reduce"]


def test_question_without_passages_is_answered_by_one_prompt():
    row = briefcontext([CHOICE], means(Scripted(), Library([])), preflight=False)[0]
    assert (row.answer, row.details.get("preflight")["map_reduce"], row.passages) == ("A", False, [])


def test_second_ranking_is_of_the_same_passages_and_ties_keep_their_order():
    assert by_bm25("sodium of the kidneys", PASSAGES) == [2, 0, 1]
    assert by_bm25("zzzz", PASSAGES) == [0, 1, 2]
    assert by_bm25("anything", []) == []
    assert bm25_scores("the of", ["the of", ""]).tolist() == [0, 0]
    scores = bm25_scores("glucose insulin", [p.text for p in PASSAGES])
    assert scores[0] > scores[1] > scores[2] == 0


def test_extraction_keeps_relevant_sentences_in_order_or_says_that_there_are_none(extractive):
    asked = AnswerRequest("q", "Which hormone lowers blood glucose?")
    quartz = RetrievedPassage("c", "d", "", "Quartz scratches steel.")
    kept = extractive.play(EXTRACT, asked, [PASSAGES[0], quartz, PASSAGES[1]]).value
    assert kept.startswith("Insulin lowers blood glucose.")
    assert kept.index("Insulin") < kept.index("Glucagon raises blood glucose.")
    assert "Quartz" not in kept
    empty = extractive.play(EXTRACT, asked, [quartz])
    assert (empty.value, empty.raw, empty.failure) == ("", "no relevant information", "")


def test_reduce_answers_from_extractions(extractive):
    assert extractive.play(REDUCE, CHOICE, ["Glucose rises.", "Insulin lowers blood glucose."]).value == "A"
    assert extractive.play(REDUCE, CHOICE, []).value == extractive.answer(CHOICE, []).value


def test_dense_ranking_is_of_the_same_passages(embedded):
    rerank = by_vectors(embedded.encode)
    assert sorted(rerank("kidneys and salt", PASSAGES)) == [0, 1, 2]
    assert rerank("kidneys and salt", PASSAGES)[0] == 2
    assert rerank("anything", []) == []


def test_preflight_is_judged_where_a_key_document_is_among_the_passages():
    questions = {"s": [Question(str(i), "?", "open", "test", evidence=(Evidence("c", "key", 0, 1),)) for i in range(5)]}

    def row(question, rank, map_reduce):
        passages = [{"spans": [["c", "key" if i == rank else f"d{i}", 0, 5]]} for i in range(1, 9)]
        preflight = {"iou": 0.2, "map_reduce": map_reduce}
        return {"question_set": "s", "method": "m", "question": str(question), "preflight": json.dumps(preflight)} | {
            "passages": json.dumps(passages)
        }

    answers = pd.DataFrame([row(0, 4, True), row(1, 3, True), row(2, 8, False), row(3, 1, False), row(4, 99, True)])
    (found,) = preflight_quality(preflight_cases(answers, questions))
    assert [found[name] for name in ("n", "tp", "fp", "fn", "tn")] == [4, 1, 1, 1, 1]
    assert found["precision"] == found["recall"] == found["f1"] == 0.5
