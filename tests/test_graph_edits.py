"""What an edit does to a sentence graph: the same files as a rebuild with the same statistics, for less work."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from conftest import examples
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from mog_assets.chunking import assets as chunking_assets
from mog_assets.config import Settings
from mog_assets.corpus import assets as corpus_assets
from mog_assets.papers.mix_of_granularity.graph import assets as graph_assets
from mog_assets.papers.mix_of_granularity.graph import rebuilding
from mog_assets.papers.mix_of_granularity.graph import sentence_graph as edges_module
from mog_assets.papers.mix_of_granularity.graph.nearest import FILES, load_nearest
from mog_assets.papers.mix_of_granularity.graph.statistics import (
    NodeStatistics,
    document_keys,
    load_statistics,
    renewal,
    save_statistics,
)
from mog_assets.recipe import materialise
from mog_assets.tools import Tools

SENTENCES = [
    "The heron waits in shallow water. ",
    "The otter swims at dusk. ",
    "It eats fish. ",
    "Fish and crayfish live in the river. ",
    "The newt lives in shallow water in spring. ",
    "A heron eats a newt, a fish and a fish. ",
    "The of and. ",
]


def text_of(sentences):
    return "".join(s if isinstance(s, str) else SENTENCES[s] for s in sentences)


class Ponds:
    """Two corpora with their graphs, in a folder; a document is a list of numbers of sentences."""

    def __init__(self, folder, across="corpus", drift=1.0, **options):
        self.folder, self.drift = Path(folder), drift
        self.documents = {"first": {"a": [0]}, "second": {"a": [1]}}
        self.options = {"across": across, "threshold": 0.1, "k": 2, "hops": 2, "max_chars": 150, **options}

    def build(self, home="home", force=False):
        """Bring everything up to date; gives the artefacts with a graph by corpus."""
        corpora = {}
        for name, documents in self.documents.items():
            path = self.folder / f"{name}.jsonl"
            texts = {
                i: "".join(s if isinstance(s, str) else SENTENCES[s] for s in held) for i, held in documents.items()
            }
            path.write_text(
                "".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in texts.items()), encoding="utf-8"
            )
            corpora[name] = {"path": str(path)}
        values = {
            "home": str(self.folder / home),
            "corpora": corpora,
            "question_sets": {"both": {"path": str(self.folder / "none.jsonl"), "corpora": ["second", "first"]}},
            "buckets": 2,
            "graph": self.options,
            "drift": {"documents": self.drift},
        }
        tools = Tools(Settings.model_validate(values))
        stages = (corpus_assets, chunking_assets, graph_assets)
        recipes = {recipe.key: recipe for stage in stages for recipe in stage.recipes(tools.settings)}
        made = {}
        for corpus in corpora:
            materialise(recipes["documents"], corpus, tools, recipes)
            made[corpus] = materialise(recipes["sentence_graph"], corpus, tools, recipes, force=force)
        if "question_set_graph" in recipes:
            made = {None: materialise(recipes["question_set_graph"], None, tools, recipes, force=force)}
        assert all(outcome.faults == {} for outcome in made.values())
        return {corpus: outcome.artefact for corpus, outcome in made.items()}


def prefix_of(artefact):
    return "" if artefact.manifest.partition else "both_"


def held_by(artefact):
    """The statistics of an artefact."""
    return load_statistics(*(artefact.path(prefix_of(artefact) + name) for name in rebuilding.STATISTICS))


def done(artefact, what):
    return artefact.manifest.info["recomputed"].get(what, 0)


def assert_as_rebuilt(ponds, made, home):
    """Every file is that of a home in which nothing was there but the same statistics."""
    held = [held_by(artefact) for artefact in made.values()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rebuilding, "take_statistics", lambda *_: held.pop(0))
        afresh = ponds.build(home)
    assert not held
    for corpus, artefact in made.items():
        files = {name: entry["sha256"] for name, entry in artefact.manifest.files.items()}
        assert files == {name: entry["sha256"] for name, entry in afresh[corpus].manifest.files.items()}
        assert done(afresh[corpus], "nodes searched") == done(afresh[corpus], "neighbourhoods gathered")


TEXTS = st.lists(st.integers(0, len(SENTENCES) - 1), min_size=1, max_size=8)
EDITS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(["first", "second"]), st.sampled_from("abcdef"), TEXTS),
    st.tuples(st.just("insert"), st.sampled_from(["first", "second"]), st.sampled_from("abcdef"), TEXTS),
    st.tuples(st.just("remove"), st.sampled_from(["first", "second"]), st.sampled_from("abcdef"), TEXTS),
)


def edit(ponds, what, corpus, name, sentences):
    documents = ponds.documents[corpus]
    if what == "put":
        documents[name] = sentences
    elif what == "insert" and name in documents:
        held = documents[name]
        documents[name] = [*held[: len(held) // 2], *sentences[:2], *held[len(held) // 2 :]]
    elif what == "remove" and name in documents and len(documents) > 1:
        del documents[name]


@settings(max_examples=examples(4), deadline=None)
@given(
    st.sampled_from(["corpus", "question_set"]),
    st.sampled_from([0.0, 1.0]),
    st.booleans(),
    st.integers(0, 3),
    st.integers(1, 3),
    st.sampled_from([60, 150, 8000]),
    st.dictionaries(st.sampled_from("abcdef"), TEXTS, min_size=1),
    st.lists(st.lists(EDITS, min_size=1, max_size=3), min_size=1, max_size=4),
)
# Equal sentences whose scores tie, before and after those that were there.
@example(
    "corpus", 1.0, False, 2, 2, 150, {"c": [2, 2, 2]}, [[("put", "first", "a", [2])], [("put", "first", "f", [2])]]
)
@example("question_set", 1.0, True, 2, 1, 60, {"b": [0, 5]}, [[("remove", "second", "a", [0])]])
def test_any_edits_end_as_a_rebuild_with_the_same_statistics(across, drift, compiled, hops, k, chars, start, steps):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        # Pictures take ten times longer than the rest.
        for picture in ("degree_histogram", "neighbourhood"):
            patch.setattr(graph_assets.plots, picture, lambda *_: b"")
        patch.setattr(edges_module, "_FEW", 0 if compiled else 10**9)
        ponds = Ponds(folder, across, drift, k=k, hops=hops, max_chars=chars)
        for corpus in ponds.documents:
            ponds.documents[corpus] = dict(start)
        ponds.build()
        for number, edits in enumerate(steps):
            for one in edits:
                edit(ponds, *one)
            made = ponds.build()
            for artefact in made.values():
                nodes = load_nearest(*(artefact.path(prefix_of(artefact) + name) for name in FILES)).asks
                event("searched some" if 0 < done(artefact, "nodes searched") < len(nodes) else "searched all or none")
            assert_as_rebuilt(ponds, made, f"afresh-{number}")
        if drift == 0:
            afresh = ponds.build("plain")
            assert {c: a.manifest.version for c, a in made.items()} == {
                c: a.manifest.version for c, a in afresh.items()
            }


@pytest.fixture
def words(tmp_path):
    """A corpus of thirty documents of ten made-up sentences each, and one of a single document."""
    rng = np.random.default_rng(4)
    ponds = Ponds(tmp_path, drift=0.1)
    for document in range(30):
        sentences = rng.zipf(1.4, (10, 7)) % 300
        ponds.documents["first"][f"d{document:02d}"] = [
            f"Word{' word'.join(map(str, sentence))}. " for sentence in sentences.tolist()
        ]
    return ponds


def test_an_edit_searches_new_nodes_and_those_that_lost_a_neighbour(words):
    before = words.build()["first"]
    lists = load_nearest(*map(before.path, FILES))
    nodes = len(lists.asks)
    assert done(before, "nodes searched") == done(before, "neighbourhoods gathered") == nodes
    layouts = [rebuilding._load_nodes(*map(before.path, rebuilding.NODES))]
    words.documents["first"]["d11"][4] = "Word1 word2 word77777. "
    built = words.build()
    after = built["first"]
    layouts.append(rebuilding._load_nodes(*map(after.path, rebuilding.NODES)))
    gone, new = (np.setdiff1d(a.prints, b.prints) for a, b in (layouts, layouts[::-1]))
    assert len(gone) == len(new) == 1
    place = int(np.flatnonzero(layouts[0].prints == gone[0])[0])
    lost = (lists.nodes == place).any(axis=1)[lists.asks]
    lost[place] = True
    assert done(after, "nodes searched") == lost.sum() < nodes / 4
    assert 0 < done(after, "neighbourhoods gathered") < nodes
    assert_as_rebuilt(words, built, "afresh")


def test_a_document_that_shares_no_term_is_searched_alone(words):
    nodes = done(words.build()["first"], "nodes searched")
    words.documents["first"]["zz"] = ["Unheard of. "]
    after = words.build()["first"]
    assert (done(after, "nodes searched"), done(after, "neighbourhoods gathered")) == (1, 1)
    del words.documents["first"]["zz"]
    again = words.build()["first"]
    assert (done(again, "nodes searched"), done(again, "neighbourhoods gathered")) == (0, 0)
    assert again.manifest.counts["nodes"] == nodes


def test_statistics_stay_until_more_than_a_share_of_documents_changed(words):
    taken = held_by(words.build()["first"])
    for number in range(1, 5):
        words.documents["first"][f"d{number:02d}"][0] = "An edit. "
        made = words.build()["first"]
        said = made.manifest.info["statistics"][""]
        if number < 4:
            assert said == {"documents changed": number, "renewed": None}
            assert made.manifest.counts["documents changed since statistics"] == number
            assert held_by(made).tokens == taken.tokens
        else:
            assert said == {"documents changed": 4, "renewed": "4 of 31 documents changed"}
            assert made.manifest.counts["documents changed since statistics"] == 0
            assert done(made, "nodes searched") == made.manifest.counts["nodes"]


@pytest.mark.full
def test_a_forced_build_renews_statistics(words):
    words.build()
    words.documents["first"]["d01"][0] = "An edit. "
    drifted = words.build()["first"]
    forced = words.build(force=True)["first"]
    assert forced.manifest.info["statistics"][""]["renewed"] == "forced"
    assert forced.manifest.version != drifted.manifest.version
    assert forced.manifest.version == words.build("plain")["first"].manifest.version


@pytest.mark.parametrize("name", [rebuilding.STATISTICS[0], rebuilding.NODES[0], FILES[0]])
def test_damaged_files_of_the_build_before_are_not_carried_over(words, name):
    words.build()
    made = words.build()["first"]
    path = made.path(name)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    words.documents["first"]["d01"][0] = "An edit. "
    after = words.build()["first"]
    assert done(after, "nodes searched") == after.manifest.counts["nodes"]
    assert after.manifest.version == words.build("plain")["first"].manifest.version


def test_a_title_of_a_corpus_and_an_id_are_part_of_what_a_document_is():
    keys = document_keys([("a", "b/c", "1"), ("a/b", "c", "1"), ("a", "b/c", "2")])
    assert len(set(keys.tolist())) == 3


@pytest.mark.parametrize(
    ("now", "share", "reason", "expected"),
    [
        ([1, 2, 3, 4], 0, None, (0, None)),
        ([1, 2, 3, 9], 0, None, (1, "1 of 4 documents changed")),
        ([1, 2, 3, 9], 0.25, None, (1, None)),
        ([1, 2], 0.25, None, (2, "2 of 4 documents changed")),
        ([1, 2, 3, 4, 5, 6], 0.5, None, (2, None)),
        ([7, 8, 9, 10], 1, None, (4, None)),
        ([1, 2, 3, 4], 1, "nightly", (0, "nightly")),
    ],
)
def test_a_reason_or_the_share_of_changed_documents_renews(now, share, reason, expected):
    held = NodeStatistics(5, 9, ["a"], np.array([2]), np.array([1, 2, 3, 4], np.uint64))
    assert renewal(held, np.array(now, np.uint64), share, reason) == expected
    assert renewal(None, np.array(now, np.uint64), share)[1] == "none held"


def test_a_term_that_statistics_do_not_know_occurs_in_one_node(tmp_path):
    held = NodeStatistics(5, 9, ["b", "d"], np.array([2, 4], np.int32), np.array([3], np.uint64))
    save_statistics(held, tmp_path / "statistics")
    np.save(tmp_path / "counted.npy", held.documents)
    read = load_statistics(tmp_path / "statistics", tmp_path / "counted.npy")
    assert read.frequencies_of(["a", "b", "c", "d"]).tolist() == [1, 2, 1, 4]
    assert (read.nodes, read.mean_length) == (5, 1.8)
