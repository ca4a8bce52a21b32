"""Filters by metadata: what meets them, what is refused, and that every retriever keeps to them."""

import json

import numpy as np
import pytest

import mog_assets
from mog_assets.build.tools import Tools
from mog_assets.index.corpora import Corpora
from mog_assets.resources.errors import ConfigError, MissingArtefact
from mog_assets.search.where import Field, Fields, Items, parse

# Its project has topics.
pytestmark = pytest.mark.whole

# Fields of chunks.
TOPICS = ("topic", "topic.label", "topic.probability")

DOCUMENTS = {
    "reports/2023/a.md": ("---\nyear: 2023\ntags: [pond, bird]\n---\n", "The heron waits for a fish in the pond."),
    "reports/2024/b.md": ("---\nyear: 2024\ntags: pond\nauthor: {name: Ada}\n---\n", "The otter catches a fish."),
    "reports/2024/c.txt": ("", "A fish hides under the stones of the pond."),
    "notes.md": ("---\nyear: '2024'\ndraft: true\npath: mine\ntopic: newts\n---\n", "The newt eats no fish at all."),
}


@pytest.fixture(scope="module")
def ponds(tmp_path_factory, materialise_project, make_project):
    """Documents in folders, with front matter, and lines with metadata."""
    folder = tmp_path_factory.mktemp("ponds")
    for name, (head, text) in DOCUMENTS.items():
        path = folder / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{head}{text}\n", encoding="utf-8")
    lines = [{"id": "l1", "text": "A pike is a fish.", "metadata": {"year": 2021.5, "draft": False}}]
    lines += [{"id": "l2", "text": "A perch is a fish.", "metadata": {"year": None}}]
    (folder / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    project = make_project(
        folder,
        {
            "corpora": {"files": {"path": "files"}, "lines": {"path": "lines.jsonl"}},
            "levels": 2,
            "buckets": 2,
            "methods": ["default", "papers"],
        },
    )
    assert materialise_project(project.settings).failures == []
    with mog_assets.open(project.config, refresh=None) as opened:
        yield opened


def found(project, where, **options):
    return {p.document for p in project.search("fish", where=where, budget=10_000, **options).passages}


A, B, C, N = DOCUMENTS


@pytest.mark.parametrize(
    ("where", "documents"),
    [
        ({}, {A, B, C, N, "l1", "l2"}),
        ({"year": 2024}, {B}),
        ({"year": "2024"}, {N}),
        ({"year": [2023, "2024"]}, {A, N}),
        ({"year": {"in": [2023]}}, {A}),
        ({"year": {"gte": 2021.5, "lt": 2024}}, {A, "l1"}),
        ({"year": {"gt": "2023"}}, {N}),
        ({"year": None}, {"l2"}),
        ({"tags": "pond"}, {A, B}),
        ({"tags": ["bird", "fox"]}, {A}),
        ({"draft": True}, {N}),
        ({"author.name": "Ada"}, {B}),
        ({"path": {"glob": "reports/*/*"}}, {A, B, C}),
        ({"path": {"glob": "**/*.md"}}, {A, B, N}),
        ({"path": {"glob": "*.md"}}, {N}),
        ({"path": {"glob": "reports/20?4/[bc].*"}}, {B, C}),
        ({"path": {"contains": "s/20"}}, {A, B, C}),
        ({"path": {"starts": "reports/", "ends": ".txt"}}, {C}),
        ({"metadata.topic": "newts"}, {N}),
        # There are too few chunks for topics.
        ({"topic": -1, "year": 2024}, {B}),
        ({"topic.label": {"contains": "out"}, "topic.probability": {"lt": 0.5}}, {A, B, C, N, "l1", "l2"}),
        ({"corpus": "lines"}, {"l1", "l2"}),
        ({"id": ["l1", N]}, {"l1", N}),
        ({"modified": {"gte": "2000-01-01"}}, {A, B, C, N}),
        ({"year": 2024, "tags": "bird"}, set()),
    ],
)
@pytest.mark.parametrize("method", ["fused", "fixed-1", "dense-2"])
def test_passages_are_of_documents_that_meet_the_filter(ponds, where, documents, method):
    assert found(ponds, where, method=method) == documents


def test_neighbourhoods_keep_to_the_filter(ponds):
    every, some = (
        {span.document for p in ponds.search("fish", method="hop-2", k=9, where=where).passages for span in p.spans}
        for where in (None, {"tags": "pond"})
    )
    assert some and some <= {A, B} and every - {A, B}


def test_a_filter_that_nothing_meets_says_so(ponds):
    result = ponds.search("fish", where={"year": 1900})
    assert result.passages == [] and "corpora and documents that were asked for" in result.empty_reason


def test_answers_keep_to_the_filter(ponds):
    told = ponds.ask("What eats fish?", where={"corpus": "lines"})
    assert told.passages and {p.corpus for p in told.passages} == {"lines"}


def test_names_that_can_be_asked_are_listed_by_corpus(ponds):
    fields = {info.name: set(info.fields) for info in ponds.corpora}
    assert {"year", "tags", "author.name", "draft", "path", "modified"} <= fields["files"]
    assert set(TOPICS) <= fields["files"] & fields["lines"]
    assert "tags" not in fields["lines"] and "year" in fields["lines"] and "mog.path" not in fields["lines"]


@pytest.fixture(scope="module")
def corpora(ponds):
    """The corpora of the project: four documents, then two."""
    return Corpora.open(Tools(ponds.settings).store.read, ponds.settings, ["files", "lines"])


def some_topics(corpora):
    """Topics by hand, of two chunks of the first document and one of each other but the last."""
    documents = np.array([0, 0, 1, 2, 3, 4])
    labels = ["Skin care", "outlier", "ponds"]
    return Items(
        documents,
        {
            "topic": ([-1, 0, 1], np.array([1, 2, 2, 0, 1, 0])),
            "topic.label": (labels, np.array([0, 2, 2, 1, 0, 1])),
            "topic.probability": ([0.0, 0.25, 0.75], np.array([1, 2, 1, 0, 2, 0])),
        },
    )


@pytest.mark.parametrize(
    ("where", "documents"),
    [
        ({"topic": 0}, [0, 3]),
        ({"topic": {"gte": 0}}, [0, 1, 3]),
        ({"topic": -1}, [2, 4]),
        ({"topic.label": {"contains": "Skin"}}, [0, 3]),
        ({"topic.label": "ponds", "topic": 0}, [0]),
        ({"topic.label": "ponds", "topic.probability": {"gt": 0.5}}, [0]),
        ({"topic.probability": {"lt": 0.5}}, [0, 1, 2, 4]),
        ({"topic": 1, "corpus": "lines"}, []),
    ],
)
def test_document_meets_a_condition_on_topics_if_one_of_its_chunks_does(corpora, where, documents):
    fields = Fields(corpora, dict.fromkeys(TOPICS, Field("topics/assigned", some_topics)))
    assert np.flatnonzero(fields.mask(where)).tolist() == documents


def test_topics_that_have_not_been_built_are_an_error_with_its_remedy(corpora):
    def missing(corpora):
        raise MissingArtefact("where.topic: expected topics of corpus files, got none: run `mog run`")

    fields = Fields(corpora, dict.fromkeys(TOPICS, Field("topics/assigned", missing)))
    assert not set(TOPICS) & set(fields.names())
    for name in TOPICS:
        with pytest.raises(MissingArtefact, match=r"where\.topic: expected .*, got none: run `mog run"):
            fields.mask({name: 1})
    # Other filters do not need them, and a document's own key stays what it is.
    assert fields.mask({"metadata.topic": "newts"}).sum() == 1


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"\ud800": 1}, "where: expected printable names, got '\\ud800'"),
        ("year", "where: expected names with conditions, got str"),
        ({"yaer": 2024}, "where.yaer: expected a name that documents have, got 'yaer'; did you mean 'year'?"),
        ({"zzzz": 2024}, "known: corpus, id, title, path, modified"),
        (
            {"year": {"above": 3}},
            "where.year.above: expected one of in, gt, gte, lt, lte, glob, contains, starts, ends, got 'above'",
        ),
        ({"year": {}}, "where.year: expected an operator"),
        ({"year": {"gt": [1]}}, "where.year.gt: expected a number or a text, got [1]"),
        ({"year": {"in": 3}}, "where.year.in: expected a list of values, got 3"),
        ({"year": [{"a": 1}]}, "where.year: expected texts, numbers, true, false or null"),
        ({"path": {"glob": "*" * 1001}}, "where.path.glob: expected a text of at most 1000 characters, got str"),
        ({"year": list(range(1001))}, "where.year: expected at most 1000 values, got 1001"),
        ({f"n{i}": 1 for i in range(33)}, "where: expected at most 32 names, got 33"),
    ],
)
def test_what_is_no_filter_is_refused_with_its_place(ponds, where, said):
    with pytest.raises(ConfigError) as raised:
        ponds.search("fish", where=where)
    assert said in str(raised.value)


def test_many_stars_take_no_time():
    (test,) = parse({"path": {"glob": "*a" * 200 + "b/" + "**/" * 100 + "x"}}).values()
    assert not test("a" * 1000 + "/" + "a/" * 500 + "y")
