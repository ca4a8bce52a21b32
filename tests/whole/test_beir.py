"""A BEIR folder from import to export: what the leaderboard shows is what others measure with graded judgements."""

import json
import re
from types import SimpleNamespace

import ir_measures
import numpy as np
import pandas as pd
import pytest
from ir_measures import RR, R, nDCG
from served import ran
from shared import SAMPLES

from mog_assets.plugins.exports.measures import file_name
from mog_assets.questions.sets import load_questions
from mog_assets.resources.store import Store

# One project is imported, built and exported for all; `mog export` is another plugin.
pytestmark = [pytest.mark.full, pytest.mark.whole]

METHODS = ["fused", "mog", "mix", "fixed-1", "dense-1", "gold", "random"]
# Documents and words of a topic, and words of a question about it.
ABOUT, TOPIC, ASKED = 10, 12, 3
SETTINGS = f"""
levels: 1
methods: [{", ".join(METHODS)}]
answering: {{methods: []}}
topics: {{sample: 1000}}
"""


def words():
    """Words of the samples, most frequent first."""
    text = " ".join(path.read_text(encoding="utf-8") for path in sorted(SAMPLES.glob("*/*")))
    text += (SAMPLES / "garden.jsonl").read_text(encoding="utf-8")
    found = pd.Series(re.findall(r"[a-z]{3,}", text.lower())).value_counts()
    return sorted(found.index, key=lambda word: (-found[word], word))


def write_beir(folder, documents, queries):
    """A BEIR folder: documents of Zipf-like words and of words of a topic, and questions about topics.

    A document that has all words of a question is of grade 2, one of the same topic that has any of grade 1, and some
    others are of grade 0.
    """
    rng = np.random.default_rng(16)
    vocabulary = words()
    common, rare = vocabulary[:600], vocabulary[600:]
    frequency = 1 / np.arange(1, len(common) + 1)
    frequency /= frequency.sum()
    # Topics share words, so that a document of another topic may have words of a question.
    topics = [rng.choice(rare, TOPIC, replace=False).tolist() for _ in range(documents // ABOUT)]
    of = rng.integers(len(topics), size=documents)
    held, lines = [], []
    for number, topic in enumerate(of.tolist()):
        own = rng.choice(topics[topic], size=rng.integers(2, 9), replace=False).tolist()
        text = [*own, *rng.choice(common, size=rng.integers(3, 9), p=frequency)]
        rng.shuffle(text)
        held.append(set(own))
        title = " ".join(own[:2]) if number % 3 else ""
        lines.append({"_id": f"D{number}", "title": title, "text": f"{' '.join(text).capitalize()}.", "metadata": {}})
    asked, qrels = [], {"dev": [], "test": []}
    while len(asked) < queries:
        topic = int(rng.integers(len(topics)))
        wanted = rng.choice(topics[topic], size=ASKED, replace=False).tolist()
        grades = {n: 2 if held[n] >= set(wanted) else 1 for n in np.flatnonzero(of == topic) if held[n] & set(wanted)}
        if 2 not in grades.values():
            continue
        grades |= {int(n): grades.get(int(n), 0) for n in rng.integers(documents, size=4)}
        split = "test" if len(asked) % 2 else "dev"
        qrels[split] += [f"Q{len(asked)}\tD{n}\t{grade}" for n, grade in grades.items()]
        asked.append({"_id": f"Q{len(asked)}", "text": f"{' '.join(wanted)} {rng.choice(common, p=frequency)}"})
    (folder / "qrels").mkdir(parents=True)
    for name, rows in (("corpus", lines), ("queries", asked)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for split, rows in qrels.items():
        text = "\n".join(["query-id\tcorpus-id\tscore", *rows, ""])
        (folder / "qrels" / f"{split}.tsv").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module", params=[(400, 120)], ids=str)
def beir(request, tmp_path_factory):
    """A project with an imported set, after a run and an export; and what the commands printed."""
    folder = tmp_path_factory.mktemp("beir")
    documents, queries = request.param
    write_beir(folder / "zipf", documents, queries)
    said = {"import": ran(folder, "import", "beir", "zipf")}
    with (folder / "mog.yaml").open("a", encoding="utf-8") as stream:
        stream.write(SETTINGS)
    said |= {"run": ran(folder, "run"), "export": ran(folder, "export", "--to", "out")}
    scores = pd.read_parquet(folder / "out" / "scores.parquet")
    store = Store(folder / ".mog")
    questions = load_questions(store.read("questions").path("zipf.parquet"), ["test"])
    return SimpleNamespace(
        folder=folder,
        out=folder / "out",
        said=said,
        scores=scores,
        store=store,
        questions=questions,
        documents=documents,
    )


def measured(beir, method):
    """What ir_measures makes of the exported run of a method."""
    qrels = list(ir_measures.read_trec_qrels(str(beir.out / "qrels" / "zipf.txt")))
    run = beir.out / "runs" / "zipf" / f"{file_name(method)}.trec"
    run = list(ir_measures.read_trec_run(str(run)))
    return qrels, run, ir_measures.calc_aggregate([nDCG @ 10, RR, R @ 10], qrels, run)


def test_others_measure_the_same_with_the_exported_files_for_every_method(beir):
    own = beir.scores.set_index(["method", "measure"])["value"]
    assert {method for method, _ in own.index} == set(METHODS)
    for method in METHODS:
        *_, theirs = measured(beir, method)
        for measure, name in ((nDCG @ 10, "nDCG@10"), (RR, "MRR"), (R @ 10, "Recall@10")):
            assert own[method, name] == pytest.approx(theirs[measure], abs=1e-9), (method, name)
    assert own["gold", "nDCG@10"] == pytest.approx(1) and own["random", "nDCG@10"] < 0.3 < own["fused", "nDCG@10"]


def test_judgements_keep_their_grades_up_to_the_export(beir):
    there = {}
    for line in (beir.folder / "zipf" / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        there[query, f"zipf/{document}"] = int(grade)
    qrels, *_ = measured(beir, "fused")
    assert {(q.query_id, q.doc_id): q.relevance for q in qrels} == there
    assert set(there.values()) == {0, 1, 2}


@pytest.mark.parametrize("method", ["fused", "mog", "mix", "fixed-1", "dense-1"])
def test_ten_documents_are_ranked_wherever_ten_were_found(beir, method):
    _, run, _ = measured(beir, method)
    ranked = pd.Series([entry.query_id for entry in run]).value_counts()
    lines = (beir.folder / "zipf" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [set(re.findall(r"[a-z]+", json.loads(line)["text"].lower())) for line in lines]
    for question in beir.questions:
        # BM25 finds documents with a word of the question that is no stop word, all others find every document.
        asked = {word for word in question.question.split()[:ASKED] if len(word) > 4}
        there = sum(bool(own & asked) for own in texts) if method == "fixed-1" else len(texts)
        assert ranked[question.id] >= min(10, there), question


def test_the_leaderboard_says_that_relevant_documents_are_its_evidence(beir):
    documents = len({q.document for q in beir.questions})
    title = f"zipf: {len(beir.questions)} questions on {documents} documents, by relevant documents, value"
    assert title in beir.said["run"] and "nDCG@10" in beir.said["run"] and "ER@1000" not in beir.said["run"]
    assert set(beir.scores["evidence"]) == {"documents"}


def test_relevant_documents_alone_train_rankings_and_the_choice_says_so(beir):
    candidates = beir.store.read("candidates").manifest.counts["questions"]
    assert candidates == len(load_questions(beir.store.read("questions").path("zipf.parquet"), ["dev"])) > 30
    for key in ("router", "mix"):
        assert beir.store.read(key).manifest.counts["questions"] == candidates
    why = beir.store.read("method").manifest.info["why"]
    assert re.search(r"cross-validated on \d+ training questions on \d+ documents, by relevant documents\)$", why), why
    assert f"`auto` is `{beir.store.read('method').manifest.info['method']}`: {why}." in beir.said["run"]
