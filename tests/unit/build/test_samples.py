"""What ships as sample data is what it says it is."""

import json
from collections import defaultdict

import pytest
from shared import ROOT

from mog_assets.config import load
from mog_assets.documents.reading import read_corpus


@pytest.fixture(scope="module")
def settings():
    return load(ROOT / "mog.yaml")


@pytest.fixture(scope="module")
def texts(settings):
    return {
        (corpus, document.id): document.text
        for corpus, source in settings.corpora.items()
        for document in read_corpus(source.path).documents
    }


@pytest.fixture(scope="module")
def questions(settings):
    lines = settings.question_sets["samples"].path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_every_sample_document_is_usable(settings):
    for source in settings.corpora.values():
        assert read_corpus(source.path).skipped == []


def test_every_quote_is_the_text_at_its_offsets(texts, questions):
    for question in questions:
        assert question["evidence"], question["id"]
        for span in question["evidence"]:
            text = texts[span["corpus"], span["doc"]]
            assert text[span["start"] : span["end"]] == span["quote"], question["id"]


def test_samples_are_large_enough_to_measure_on(texts, questions):
    assert len(texts) >= 40
    assert sum(len(text.split()) for text in texts.values()) >= 12_000
    assert len(questions) >= 120
    assert {question["kind"] for question in questions} == {"pinpoint", "section", "across"}
    assert len({question["id"] for question in questions}) == len(questions)


def test_no_document_is_evidence_for_two_splits(questions):
    splits = defaultdict(set)
    for question in questions:
        for span in question["evidence"]:
            splits[span["corpus"], span["doc"]].add(question["split"])
    assert {document: found for document, found in splits.items() if len(found) > 1} == {}
