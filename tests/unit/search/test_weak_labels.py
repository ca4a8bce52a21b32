"""What trains a ranking where nobody named a place: passages of relevant documents, passages that hold the answer."""

from dataclasses import replace

import numpy as np
import pytest

from mog_assets.build.tools import Tools
from mog_assets.questions.sets import LEVELS, Question, Relevant, load_questions
from mog_assets.search import weak_labels
from mog_assets.search.candidates import ordered
from mog_assets.search.index import expert_names
from mog_assets.search.rankings import fused
from mog_assets.search.relevance import Relevance
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.trainers import trained_mix
from mog_assets.search.training import Examples


@pytest.fixture(scope="module")
def asked(sample_project):
    """Training questions of the samples over their own corpora, their candidates, and scores by `fused`."""
    tools, names = Tools(sample_project.settings), expert_names(sample_project.settings)
    name, question_set = next(iter(sample_project.settings.question_sets.items()))
    stored = tools.store.read("questions").path(f"{name}.parquet")
    questions = [q for q in load_questions(stored, question_set.train) if q.evidence][:40]
    retrieval = Retrieval.open(tools, tools.store.read, question_set.corpora, [q.question for q in questions])
    return retrieval, questions, fused(retrieval.read.candidates, names)


def texts_of(retrieval, spans):
    held = retrieval.corpora.texts([document for document, *_ in spans])
    return [held[document][1][start:end] for document, start, end in spans]


def only_documents(question):
    relevant = tuple(Relevant(*document, grade) for document, grade in question.grades.items())
    return replace(question, evidence=(), relevant=relevant, answer="", long_answer="", aliases=())


def only_answer(question):
    return replace(question, evidence=(), relevant=())


def test_named_places_train_and_measure_as_they_are(asked):
    retrieval, questions, scores = asked
    position = retrieval.corpora.position
    expected = [[(position[e.corpus, e.doc], e.start, e.end) for e in q.evidence] for q in questions]
    for found in (
        weak_labels.measured(questions, retrieval.corpora),
        weak_labels.taught(questions, retrieval.read.candidates, scores, retrieval.corpora),
    ):
        assert [sorted(own) for own in found] == [sorted(own) for own in expected]


def test_relevant_documents_measure_whole_and_train_by_their_best_passages(asked):
    retrieval, questions, scores = asked
    reduced, corpora = [only_documents(q) for q in questions], retrieval.corpora
    assert {q.level for q in reduced} == {"documents"}
    whole = weak_labels.measured(reduced, corpora)
    found, layout = retrieval.read.candidates, corpora.layout
    for question, spans in zip(reduced, whole, strict=True):
        lengths = {
            corpora.position[d]: len(texts_of(retrieval, [(corpora.position[d], 0, 10**9)])[0]) for d in question.grades
        }
        assert sorted(spans) == sorted((document, 0, n) for document, n in lengths.items())
    order = ordered(found, scores)
    for number, spans in enumerate(weak_labels.taught(reduced, found, scores, corpora)):
        rows = order[found.offsets[number] : found.offsets[number + 1]]
        documents = {document for document, *_ in whole[number]}
        inside = [row for row in rows.tolist() if layout.document_of[found.piece[row]] in documents][: weak_labels.BEST]
        assert spans == [(layout.document_of[p], *layout.spans[p].tolist()) for p in found.piece[inside].tolist()]


def test_passages_train_that_hold_the_answer_word_for_word(asked):
    retrieval, questions, scores = asked
    reduced = [replace(only_answer(q), answer="four weeks", aliases=("one month",)) for q in questions]
    assert not any(weak_labels.measured(reduced, retrieval.corpora))
    found = weak_labels.taught(reduced, retrieval.read.candidates, scores, retrieval.corpora)
    held = [text.casefold() for spans in found for text in texts_of(retrieval, spans)]
    assert held and all("four weeks" in text or "one month" in text for text in held)


def test_of_a_long_answer_those_train_that_hold_most_of_its_words(asked):
    retrieval, questions, scores = asked
    corpora = retrieval.corpora
    (first, *_), spans = questions, weak_labels.measured(questions, corpora)[0]
    text = texts_of(retrieval, spans)[0]
    words = text.split()
    assert len(words) > weak_labels.SHORT
    mixed = replace(only_answer(first), answer=" ".join(words[::-1]))
    found = weak_labels.taught([mixed, *questions[1:]], retrieval.read.candidates, scores, corpora)[0]
    assert any(document == spans[0][0] and start < spans[0][2] and spans[0][1] < end for document, start, end in found)


@pytest.mark.parametrize("answer", ["yes", "No", "maybe", "", "?!"])
def test_an_answer_that_says_nothing_trains_nothing(asked, answer):
    retrieval, questions, scores = asked
    reduced = [replace(only_answer(q), answer=answer, aliases=(), long_answer="") for q in questions]
    assert not any(weak_labels.taught(reduced, retrieval.read.candidates, scores, retrieval.corpora))


def test_the_text_of_an_option_is_the_answer_and_the_long_one_stands_in_for_a_yes():
    option = Question("q", "?", "", "train", answer="B", options={"A": "salt", "B": "chalk dust"})
    assert weak_labels.texts_of_answer(option) == ["chalk dust"]
    closed = Question("q", "?", "", "train", answer="yes", long_answer="Because chalk dries the air.")
    assert weak_labels.texts_of_answer(closed) == ["Because chalk dries the air."]


def examples(asked, questions, names):
    retrieval, _, scores = asked
    found, corpora = retrieval.read.candidates, retrieval.corpora
    gold = Relevance.located(found, weak_labels.measured(questions, corpora), corpora.layout)
    taught = Relevance.located(found, weak_labels.taught(questions, found, scores, corpora), corpora.layout)
    levels = np.array([LEVELS.index(q.level) for q in questions])
    documents = [q.document for q in questions]
    made = np.array([q.origin != "given" for q in questions])
    own = retrieval.read
    return Examples(gold, taught, own.vectors, own.words, documents, levels, made, names, own.finest)


def test_questions_with_places_measure_else_those_with_documents_and_answers_never(asked, sample_project):
    _, questions, _ = asked
    names, half = expert_names(sample_project.settings), len(questions) // 2
    some = examples(asked, [*questions[:half], *(only_documents(q) for q in questions[half:])], names)
    assert some.measured.tolist() == [True] * half + [False] * (len(questions) - half)
    assert examples(asked, [only_documents(q) for q in questions], names).measured.all()
    assert not examples(asked, [only_answer(q) for q in questions], names).measured.any()


def test_questions_that_were_made_measure_only_without_others(asked, sample_project):
    _, questions, _ = asked
    names, half = expert_names(sample_project.settings), len(questions) // 2
    made = [replace(q, origin="generated") for q in questions]
    asked_by_people = [only_documents(q) for q in questions[half:]]
    assert examples(asked, made, names).measured.all()
    some = examples(asked, [*made[:half], *asked_by_people], names)
    assert some.measured.tolist() == [False] * half + [True] * (len(questions) - half)


def test_other_passages_of_a_relevant_document_are_neither_right_nor_wrong(asked, sample_project):
    _, questions, _ = asked
    names = expert_names(sample_project.settings)
    by_document = examples(asked, [only_documents(q) for q in questions], names)
    unknown = ~by_document.trainable
    assert unknown.any()
    assert (by_document.gold.covered[unknown] > 0).all() and (by_document.taught.covered[unknown] == 0).all()
    assert examples(asked, questions, names).trainable.all()


def test_mix_learns_from_answers_and_from_documents(asked, sample_project):
    _, questions, scores = asked
    names = expert_names(sample_project.settings)
    truth = examples(asked, questions, names)
    chance = truth.gold.recall(np.lexsort((np.arange(len(scores)), truth.candidates.question))).mean()
    for reduced in (only_documents, only_answer):
        taught = examples(asked, [reduced(q) for q in questions], names)
        trained = trained_mix(taught, 0)
        # On the questions it was trained on, with the places it never saw.
        assert truth.gold.recall(ordered(truth.candidates, trained.scores(truth.inputs))).mean() > chance + 0.2
