"""`levels: auto`: what is chosen for a corpus, and that levels it does not have are aliases of its coarsest one."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_incremental import IN_MEMORY, Interrupted, Project, assert_equal_to_a_rebuild

from mog_assets import answer, automation, config
from mog_assets.corpus import plots
from mog_assets.corpus.chunks import Layout
from mog_assets.corpus.layouts import join_layouts
from mog_assets.corpus.questions import Evidence, Question
from mog_assets.errors import MissingArtefact
from mog_assets.evaluation import granularity
from mog_assets.evaluation import plots as evaluation_plots
from mog_assets.evaluation.granularity import Granularity
from mog_assets.evaluation.measures import evaluate
from mog_assets.retrieval.corpora import Corpora
from mog_assets.retrieval.methods import LevelChunks, Passages, parse
from mog_assets.retrieval.mix import candidates
from mog_assets.retrieval.recall import evidence_recall
from mog_assets.retrieval.search import Hits
from mog_assets.routing.retrieve import Retrieval
from mog_assets.topics import assets as topics_assets
from mog_assets.topics import model
from resources.encoder import Encoder
from resources.points import interrupt_with
from resources.recipe import materialise

SENTENCE = "The word {} is known to those who have read about the {} of old, and to nobody else here."
KINDS = ["tree", "stone", "bird", "river", "cloud", "fish", "moon", "fire"]
DOCUMENTS = 5
# The module's tests but one go without pictures.
drawn = evaluation_plots.er_against_bytes
CORPORA = ("file", "folder")
# Questions to `file` ask for a sentence, those to `folder` for a document.
DETAILS, STORIES = "file", "folder"


def document(name, sentences=30):
    """A text of sentences that each have a word of their own, and their spans."""
    parts = [SENTENCE.format(f"{name}x{i}", KINDS[i % len(KINDS)]) for i in range(sentences)]
    ends = np.cumsum([len(part) + 1 for part in parts]) - 1
    return " ".join(parts), [(int(end) - len(part), int(end)) for part, end in zip(parts, ends, strict=True)]


def questions(splits=("train",)):
    """Questions as lines of a file, with one sentence of a document or with all of it for evidence."""
    for corpus in CORPORA:
        for d in range(DOCUMENTS):
            spans = document(f"{corpus}{d}")[1]
            for n, i in enumerate(range(1, 30, 7)):
                start, end = spans[i] if corpus == DETAILS else (0, spans[-1][1])
                doc = f"{corpus}{d}" + (".md" if corpus == "folder" else "")
                yield {
                    "id": f"{corpus}{d}-{i}",
                    "question": f"What is the word {corpus}{d}x{i}?",
                    "split": splits[n % len(splits)],
                    "evidence": [{"corpus": corpus, "doc": doc, "start": start, "end": end}],
                }


class Auto(Project):
    """Without sentence graph and labels, which see no levels or see them through the same layouts."""

    def places(self):
        for recipe, corpus, recipes in super().places():
            if recipe.group not in ("graph", "routing"):
                yield recipe, corpus, recipes


def auto(folder, encoder, **options):
    """Both corpora, and what `levels: auto` chooses from; nothing is made yet."""
    chosen_from = {"finest_chars": [200, 1600], "levels": 3, "across": "corpus", **options.pop("granularity", {})}
    project = Auto(folder, encoder, levels="auto", granularity=chosen_from, **options)
    for corpus in CORPORA:
        for d in range(DOCUMENTS):
            project.put(corpus, f"{corpus}{d}", document(f"{corpus}{d}")[0])
    return project


def with_questions(folder, encoder, **options):
    rows = [json.dumps(row) + "\n" for row in questions()]
    (folder / "questions.jsonl").write_text("".join(rows), encoding="utf-8")
    words = {"path": "questions.jsonl", "corpora": list(CORPORA), "train": ["train"]}
    return auto(folder, encoder, question_sets={"words": words}, **options)


def chosen(project):
    return json.loads(project.stored("granularity", None).path("choice.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def nothing_is_drawn():
    """Pictures are looked at in one test, and take most of the time of the others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "length_histogram", lambda *_: b"")
        patch.setattr(evaluation_plots, "er_against_bytes", lambda *_: b"")
        yield


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return Encoder(config.EncoderSettings(device="cpu"), tmp_path_factory.mktemp("vectors"))


@pytest.fixture(scope="module")
def built(tmp_path_factory, encoder):
    """The two corpora with what is made of them. Not to be changed."""
    project = with_questions(tmp_path_factory.mktemp("auto"), encoder)
    project.run()
    return project


def test_questions_for_sentences_get_finer_chunks_than_questions_for_documents(built):
    assert chosen(built) == {
        DETAILS: {"finest_chars": 200, "levels": 1},
        STORIES: {"finest_chars": 1600, "levels": 2},
    }


def test_levels_that_a_corpus_does_not_have_are_stored_nowhere(built):
    tools = built.tools
    for corpus, own in ((DETAILS, 1), (STORIES, 2)):
        for level in built.settings.level_range:
            held = tools.qdrant.counts(f"level_{level}").get(corpus, 0)
            for kind, count in (("chunks", "chunks"), ("bm25", "chunks"), ("embeddings", "vectors")):
                artefact = built.stored(f"{kind}/level_{level}", corpus)
                size = sum(entry["bytes"] for entry in artefact.manifest.files.values())
                assert (artefact.manifest.counts[count] > 0) == (level <= own)
                assert level <= own or (
                    size < 20 and json.loads(artefact.path("same_as.json").read_text())["level"] == own
                )
            points = built.stored(f"collections/level_{level}", corpus).manifest.counts["points"]
            assert held == points
            assert (points > 0) == (level <= own)
    assert not (built.settings.home / "qdrant/level_3").exists()


def test_passages_of_every_method_are_the_chunks_of_both_corpora(built):
    corpora = Corpora.open(built.tools.store.read, built.settings, list(CORPORA))
    asked = ["What is the word file3x8?", "What is the word folder2x15?", "Who read about the moon and the fire?"]
    encoder = built.tools.encoder
    retrieval = Retrieval(corpora, asked, encoder.encode, encoder.fingerprint, built.tools.qdrant)
    texts = corpora.texts(range(2 * DOCUMENTS))
    # Chunks by brute force: spans of level 1, joined two by two as often as the corpus has levels.
    wanted = {level: set() for level in built.settings.level_range}
    for d, (corpus, text) in enumerate(zip(corpora.owners, texts.values(), strict=True)):
        spans = corpora.layout.spans[corpora.layout.document_of == d].tolist()
        assert "".join(text[1][s:e] for s, e in spans) == text[1]
        for level in wanted:
            wanted[level] |= {(d, s, e) for s, e in spans}
            if level < [1, 2][corpus]:
                spans = [(pair[0][0], pair[-1][1]) for pair in zip(spans[::2], [*spans[1::2], spans[-1]], strict=False)]
    weights = np.array([[0.1, 0.2, 0.9], [0.9, 0.2, 0.1], [0.2, 0.9, 0.1]])
    levels = {"mog": [3, 1, 2], "fixed": None, "fused": None}
    found_in = set()
    for retriever in ("bm25", "dense", "hybrid"):
        for name in [f"{kind}-{level}" for kind in ("fixed", "fused") for level in (1, 2, 3)] + ["mog"]:
            method = parse(f"{retriever}:{name}", built.settings)
            found = retrieval.rank(method, 2, weights if name == "mog" else None)
            assert set(found.question.tolist()) == {0, 1, 2}
            for question, d, start, end, level in zip(
                found.question, found.document, found.start, found.end, found.level, strict=True
            ):
                assert level == (method.level or levels["mog"][question])
                assert (d, start, end) in wanted[level], name
                found_in.add((name, int(corpora.owners[d])))
            # The first passage of a question for one word holds the word.
            if retriever == "bm25":
                for question in (0, 1):
                    top = np.flatnonzero(found.question == question)[0]
                    text = texts[int(found.document[top])][1][found.start[top] : found.end[top]]
                    assert asked[question].split()[-1].rstrip("?") + " " in text
    assert len(found_in) == 14


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4)), min_size=1, max_size=6),
    st.integers(1, 5),
)
def test_chunks_of_an_alias_are_those_of_the_coarsest_level(documents, level):
    parts = []
    for i, (count, levels) in enumerate(documents):
        spans = np.stack([np.arange(count), np.arange(count) + 1], axis=1) * 10
        parts.append(Layout(str(i), [f"d{i}"], np.array([0, count]), spans, levels))
    layout = join_layouts("", parts)
    chunks = []
    for d, (count, levels) in enumerate(documents):
        width = 2 ** (min(level, levels) - 1)
        first = int(layout.offsets[d])
        chunks += [(d, first + a, first + min(a + width, count)) for a in range(0, count, width)]
    assert layout.count(level) == len(chunks)
    first, last = layout.covered(np.arange(len(chunks)), level)
    assert [(d, a, z) for d, a, z in chunks] == list(zip(layout.document_of[first], first, last, strict=True))
    pieces = np.arange(layout.count(1))
    own = [next(i for i, (_, a, z) in enumerate(chunks) if a <= piece < z) for piece in pieces]
    assert layout.containing(pieces, level).tolist() == own


def test_a_corpus_with_fewer_levels_is_not_ranked_behind_for_it():
    """The same scores at every level: the coarsest chunk counts at its aliases, as a short document's last one does."""
    spans = np.array([[0, 10], [10, 20]])
    layouts = [Layout(name, [name], np.array([0, 2]), spans, levels) for name, levels in (("few", 1), ("many", 3))]
    layout = join_layouts("", layouts)

    def starts(level):
        return np.array([0, layouts[0].count(level)])

    chunks = LevelChunks(layout, 3, starts)
    question = np.zeros(2, np.int64)
    hits = [Hits(question, np.array([0, starts(level)[1]]), np.array([2.0, 2.0])) for level in (1, 2, 3)]
    found = candidates(hits, chunks)
    scores = dict(zip(found.piece.tolist(), found.scores.tolist(), strict=True))
    assert scores == {0: [2, 2, 2], 2: [2, 2, 2], 3: [0, 2, 2]}


# What is chosen


def test_evidence_recall_is_that_of_the_scores():
    rng = np.random.default_rng(5)
    asked, rows, gold = [], [], []
    for q in range(12):
        evidence = [
            (int(d), int(s), int(s) + int(rng.integers(1, 900)))
            for d, s in zip(rng.permutation(4)[:2], rng.integers(0, 3000, 2), strict=True)
        ]
        gold += [(q, *span) for span in evidence]
        asked.append(
            Question(str(q), "?", "", "dev", evidence=tuple(Evidence("c", str(d), s, e) for d, s, e in evidence))
        )
        for rank in range(int(rng.integers(1, 14))):
            # No character twice, as chunks of a level have it.
            start = 400 * rank + int(rng.integers(0, 100))
            rows.append((q, rank, int(rng.integers(0, 4)), start, start + int(rng.integers(1, 300)), 1, 0.0))
    found = Passages(*np.array(rows).T.astype(np.int64))
    runs = pd.DataFrame(
        {"question_set": "s", "question": found.question.astype(str), "method": "m", "rank": found.rank + 1}
        | {"corpus": "c", "doc": found.document.astype(str), "start": found.start, "end": found.end, "tokens": 1}
    )
    wanted = evaluate(runs, {"s": asked}, 2).set_index("question").loc[[q.id for q in asked], "ER"].to_numpy()
    assert 0 < wanted.mean() < 1
    question, document, start, end = np.array(gold).T
    evidence = Passages(question, question, document, start, end, question, question)
    np.testing.assert_allclose(evidence_recall(found, evidence, len(asked)), wanted)


def test_more_methods_to_choose_from_are_worth_nothing_by_themselves():
    er = np.random.default_rng(1).random((400, 60))
    value, best = granularity.cross_fitted(er)
    assert best == er.mean(axis=0).argmax()
    assert er[:, best].mean() > 0.52
    assert abs(value.mean() - 0.5) < 0.03
    good = np.column_stack([er, er[:, 0] + 0.5])
    np.testing.assert_array_equal(granularity.cross_fitted(good)[0], good[:, -1])


OPTIONS = [Granularity(250, 1), Granularity(250, 2), Granularity(500, 1)]


@pytest.mark.parametrize(
    ("behind", "earlier", "chosen"),
    [
        ([0.0, 3.0, 3.0], None, 0),
        # The cheapest within a standard error of the best.
        ([1.0, 0.0, 0.9], None, 2),
        ([1.0, 0.0, 1.1], None, 0),
        # What was chosen stays as long as it may be the best, and no cheaper one clearly may.
        ([1.0, 0.0, 1.1], Granularity(250, 2), 1),
        ([0.0, 1.9, 3.0], Granularity(250, 2), 0),
        ([1.9, 0.0, 3.0], Granularity(250, 1), 0),
        ([2.1, 0.0, 3.0], Granularity(250, 1), 1),
        ([1.0, 0.0, 0.6], Granularity(250, 1), 0),
        ([1.0, 0.0, 0.4], Granularity(250, 1), 2),
        # One that can no longer be chosen counts for nothing.
        ([1.0, 0.0, 0.9], Granularity(1000, 1), 2),
    ],
)
def test_cheapest_as_good_as_the_best_is_chosen_and_stays(behind, earlier, chosen):
    mean, cost = 1 - np.array(behind) / 10, np.array([5.0, 8.0, 3.0])
    assert granularity.chosen_of(mean, cost, np.array(behind), OPTIONS, earlier) == chosen


def lengths_of(folder, texts):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": texts, "sha256": ["ab" * 32] * len(texts)}), folder / "documents.parquet")
    granularity.lengths({"one": [str(folder / "documents.parquet")]}, str(folder / "cell"))
    return folder / "cell"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # 4 sentences of 51 characters; sections of one, of 8, and a text that has none.
        ("\n\n".join(["x" * 49 + "."] * 9), Granularity(200, 1)),
        ("\n# ".join([("x" * 49 + ". ").replace("x", "X", 1) * 8] * 5), Granularity(200, 3)),
        (("X" + "x" * 48 + ". ") * 32, Granularity(200, 4)),
        (("X" + "x" * 298 + ". ") * 2, Granularity(1000, 1)),
    ],
)
def test_sentences_and_sections_decide_without_questions(tmp_path, text, expected):
    choice = granularity.from_lengths(lengths_of(tmp_path, [text]), [200, 500, 1000], 4, None)
    assert choice.chosen == expected


def test_length_that_hardly_changes_changes_no_granularity(tmp_path):
    cell = lengths_of(tmp_path, [("X" + "x" * 98 + ". ") * 8 + "Y."])
    before = granularity.from_lengths(cell, [200, 500], 4, None).chosen
    assert before == Granularity(500, 2)
    longer = lengths_of(tmp_path, [("X" + "x" * 98 + ". ") * 10 + "Y."])
    assert granularity.from_lengths(longer, [200, 500], 4, None).chosen == Granularity(500, 3)
    assert granularity.from_lengths(longer, [200, 500], 4, before).chosen == before
    much = lengths_of(tmp_path, [("X" + "x" * 98 + ". ") * 16 + "Y."])
    assert granularity.from_lengths(much, [200, 500], 4, before).chosen == Granularity(500, 3)


def test_every_granularity_is_shown_with_what_it_costs(built):
    info = built.stored("granularity", None).manifest.info
    for corpus in CORPORA:
        rows = info["granularities"][corpus]
        assert [(row["finest characters"], row["levels"]) for row in rows] == [
            (size, levels) for size in (200, 1600) for levels in (1, 2, 3)
        ]
        (row,) = [row for row in rows if row["chosen"]]
        assert row["finest characters"] == chosen(built)[corpus]["finest_chars"]
        assert all(0 <= row["low"] <= row["ER"] <= row["high"] <= 1 for row in rows)
        title = f"{corpus}: search with 25 training questions"
        assert info["shown"][title].count("\n") >= len(rows)
        assert drawn(rows, corpus).startswith(b"\x89PNG")
        # Counts and vectors as they are stored, whatever they were made from.
        tables = [built.stored(f"{kind}/level_{level}", corpus) for kind in ("bm25", "embeddings") for level in (1, 2)]
        real = [t for t in tables if "same_as.json" not in t.manifest.files]
        stored = sum(entry["bytes"] for t in real for entry in t.manifest.files.values())
        text = built.stored("documents", corpus).manifest.counts["text bytes"]
        assert stored / text == pytest.approx(row["index bytes / text bytes"], rel=0.1)


# What a change costs


@pytest.fixture
def project(encoder):
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        yield with_questions(Path(name), encoder)


def created(project):
    return {
        (recipe.key, corpus): project.stored(recipe.key, corpus).manifest.created
        for recipe, corpus, _ in project.places()
    }


def test_killed_search_goes_on_where_it_was(project):
    moved = []

    def kill(point):
        moved.append(point)
        if moved.count("file moved") == 3:
            raise Interrupted

    for recipe, corpus, recipes in project.places():
        if recipe.key == "granularity":
            interrupt_with(kill)
            try:
                with pytest.raises(Interrupted):
                    materialise(recipe, corpus, project.tools, recipes)
            finally:
                interrupt_with(None)
            assert project.tools.store.find("granularity") is None
            outcome = materialise(recipe, corpus, project.tools, recipes)
            assert outcome.artefact.manifest.info["recomputed"]["searches"] == 1
            return
        materialise(recipe, corpus, project.tools, recipes)
    pytest.fail("there is no granularity")


def test_edited_document_searches_its_corpus_and_cuts_only_itself(project):
    assert project.run()["granularity"]["searches"] == 4
    before, earlier = created(project), chosen(project)
    text = document(f"{DETAILS}0")[0]
    project.put(DETAILS, f"{DETAILS}0", text + " One more sentence that nobody asks for.")
    recomputed = project.run()
    assert recomputed["granularity"]["searches"] == 2
    assert chosen(project) == earlier
    assert recomputed["chunks/level_1"] == {"documents split": 1, "documents skipped": DOCUMENTS - 1}
    after = created(project)
    assert [key for key, corpus in after if corpus == STORIES and after[key, corpus] != before[key, corpus]] == []
    assert project.run() == {}
    assert_equal_to_a_rebuild(project)


def test_other_questions_cut_both_corpora_anew_and_leave_nothing_behind(project):
    project.run()
    rows = list(questions())
    for row in rows:
        (evidence,) = row["evidence"]
        spans = document(evidence["doc"].removesuffix(".md"))[1]
        i = int(row["id"].rsplit("-", 1)[1])
        evidence["start"], evidence["end"] = spans[i] if evidence["corpus"] == STORIES else (0, spans[-1][1])
    (project.folder / "questions.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    earlier = chosen(project)
    project.run()
    assert chosen(project) == {DETAILS: earlier[STORIES], STORIES: earlier[DETAILS]}
    assert project.tools.qdrant.counts("level_2").keys() == {DETAILS}
    assert project.run() == {}
    assert_equal_to_a_rebuild(project)


def test_choice_that_stays_touches_nothing_below(project):
    project.run()
    before = created(project)
    path = project.folder / "questions.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:-1]), encoding="utf-8")
    recomputed = project.run()
    # The other corpus has the same questions as before.
    assert recomputed["granularity"]["searches"] == 2
    after = created(project)
    assert {key for key in after if after[key] != before[key]} == {("questions", None), ("granularity", None)}


def halves(vectors, texts, *_):
    """In place of BERTopic, which takes longer than all else: two topics of equal size."""
    return (vectors[:, 0] > np.median(vectors[:, 0])).astype(int), [["low"], ["high"]]


def test_corpora_without_questions_follow_their_texts_and_verify_is_clean(tmp_path, encoder, monkeypatch):
    monkeypatch.setattr(model, "_cluster", halves)
    monkeypatch.setattr(topics_assets, "fit_apart", lambda arguments: model.fit_buckets(**arguments))
    project = auto(tmp_path, encoder)
    for d in range(DOCUMENTS):
        project.put(DETAILS, f"{DETAILS}{d}", document(f"{DETAILS}{d}")[0].replace(". ", ".\n\n"))
    recipes = automation.graph(project.settings)
    for recipe in recipes.values():
        for corpus in CORPORA if recipe.partitioned else [None]:
            if not recipe.on_demand:
                assert materialise(recipe, corpus, project.tools, recipes).faults == {}
    assert chosen(project) == {
        DETAILS: {"finest_chars": 200, "levels": 1},
        STORIES: {"finest_chars": 200, "levels": 3},
    }
    checked, faults = answer.verify(project.settings)
    assert checked > 20
    assert faults == []
    assert project.stored("topics/model", None).manifest.counts["topics"] == 2
    topics = project.stored("topics/assigned", DETAILS)
    chunks = project.stored("chunks/level_1", DETAILS).manifest.counts["chunks"]
    assert topics.manifest.info["points"] == {"1": chunks, "2": 0, "3": 0}
    corpora = Corpora.open(project.tools.store.read, project.settings, list(CORPORA))
    asked = Retrieval(corpora, ["What is the word file3x8?"], encoder.encode, encoder.fingerprint, project.tools.qdrant)
    for name in ("fixed-2+topics", "fixed-3+topics", "dense:fixed-3+topics", "mogg-uniform"):
        assert len(asked.rank(parse(name, project.settings), 2).question)
    with project.tools.qdrant.open("level_2", encoder.encode(["x"]).shape[1]) as collection:
        collection.upsert(["00000000-0000-0000-0000-000000000001"], encoder.encode(["x"]), [{"corpus": DETAILS}])
    assert any(f"1 points of corpus {DETAILS}, expected 0" in fault for fault in answer.verify(project.settings)[1])


def test_corpora_that_are_asked_together_are_searched_together(tmp_path, encoder):
    project = with_questions(tmp_path, encoder, granularity={"across": "question_set", "refit_share": 0.1})
    recipes = automation.graph(project.settings)

    def choose():
        for key in ("documents", "questions", "granularity"):
            for corpus in CORPORA if recipes[key].partitioned else [None]:
                outcome = materialise(recipes[key], corpus, project.tools, recipes)
        return outcome.artefact.manifest.info

    info = choose()
    assert info["recomputed"]["searches"] == 2
    assert list(info["granularities"]) == [f"{DETAILS}, {STORIES}"]
    assert chosen(project)[DETAILS] == chosen(project)[STORIES]
    # A tenth of the documents is another: what was searched still stands; then a fifth is.
    project.put(DETAILS, f"{DETAILS}0", document(f"{DETAILS}0")[0] + " One more sentence.")
    assert choose()["recomputed"]["searches"] == 0
    project.put(STORIES, f"{STORIES}0", document(f"{STORIES}0")[0] + " One more sentence.")
    assert choose()["recomputed"]["searches"] == 2
    assert len(list((project.settings.home / "cache/granularity").iterdir())) == 2


def test_question_sets_that_share_a_corpus_are_one_group():
    groups = granularity.asked_together(list("abcdef"), ["db", "fc", "bf"])
    assert groups == [("a",), ("b", "c", "d", "f"), ("e",)]
    assert granularity.asked_together(["a", "b"], []) == [("a",), ("b",)]


def test_new_corpus_waits_for_its_granularity(built, encoder):
    third = {name: {"path": str(c.path)} for name, c in built.settings.corpora.items()}
    third["third"] = third[STORIES]
    wider = Project(built.folder, encoder, "home", corpora=third, **built.options)
    recipes = automation.graph(wider.settings)
    materialise(recipes["documents"], "third", wider.tools, recipes)
    with pytest.raises(MissingArtefact, match="chosen for file, folder, not yet for third: materialise it first"):
        materialise(recipes["chunks/level_1"], "third", wider.tools, recipes)
