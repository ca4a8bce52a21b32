"""The export: TREC files that other tools measure to the same figures, tables that others open."""

import json
import shutil
from types import SimpleNamespace
from urllib.parse import unquote

import ir_measures
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ir_measures import RR, R, nDCG
from shared import called

from mog_assets.build.tools import Tools
from mog_assets.evaluate.measures import evaluate
from mog_assets.evaluate.runs import read_runs
from mog_assets.plugins.exports.measures import file_name, retrieval_files, trec_qrels, trec_run, write_csv
from mog_assets.questions.sets import Evidence, Question
from mog_assets.resources.errors import MogError

pytestmark = pytest.mark.full

WINDOWS = set('<>:"/\\|?*') | set(map(chr, range(32)))


def exported(project, *arguments):
    return called("export", *arguments, "--config", project.config)


@pytest.fixture(scope="module")
def export(sample_project, tmp_path_factory):
    """The export of the sample project: its folder and what the command said."""
    folder = tmp_path_factory.mktemp("export") / "new" / "folder"
    result = exported(sample_project, "--to", folder)
    assert result.exit_code == 0, result.output
    return SimpleNamespace(folder=folder, said=result.stdout)


# What others measure


def test_exported_runs_and_qrels_give_the_scores_of_the_leaderboard(sample_project, export):
    scores = pd.read_parquet(export.folder / "scores.parquet").set_index(["question_set", "method", "measure"])
    own = {"nDCG@10": nDCG @ 10, "MRR": RR, "Recall@10": R @ 10}
    compared = 0
    for question_set, method in dict.fromkeys((name, method) for name, method, _ in scores.index):
        qrels = list(ir_measures.read_trec_qrels(str(export.folder / "qrels" / f"{question_set}.txt")))
        run = export.folder / "runs" / question_set / f"{file_name(method)}.trec"
        theirs = ir_measures.calc_aggregate(own.values(), qrels, ir_measures.read_trec_run(str(run)))
        for name, measure in own.items():
            assert theirs[measure] == pytest.approx(scores.loc[(question_set, method, name), "value"], abs=1e-9)
            compared += 1
    assert compared == 3 * len({method for _, method, _ in scores.index}) > 30
    assert scores.loc[("samples", "fixed-2", "nDCG@10"), "value"] > 0.5


def test_a_run_ranks_each_document_once_without_ties(sample_project, export):
    runs = read_runs(Tools(sample_project.settings).store.read("runs").path("runs.parquet"))
    for method in runs["method"].unique():
        (path,) = export.folder.glob(f"runs/samples/{file_name(method)}.trec")
        lines = pd.read_csv(path, sep=" ", header=None, names=["q", "Q0", "doc", "rank", "score", "tag"])
        assert not lines.duplicated(["q", "doc"]).any() and not lines.duplicated(["q", "score"]).any()
        for _, part in lines.groupby("q"):
            assert part["rank"].tolist() == list(range(1, len(part) + 1))
            assert part["score"].is_monotonic_decreasing and (part["score"] > 0).all()
        own = runs[runs["method"] == method]
        assert len(lines) == len(own[["question", "corpus", "doc"]].drop_duplicates())
        assert {unquote(tag) for tag in lines["tag"]} == {method}


ODD = "a b\tc\u2028%20é/ü\u00a0#\N{PILE OF POO}"


def ranked(spans, method="m", question=ODD):
    rows = [("s", "test", question, method, rank, "c", doc, start, start + 9, 2) for rank, doc, start in spans]
    return pd.DataFrame(
        rows, columns=["question_set", "split", "question", "method", "rank", "corpus", "doc", "start", "end", "tokens"]
    )


def test_a_document_stands_at_the_rank_of_its_first_passage():
    # The second passage has two spans in two documents; they count in the order in which they stand.
    runs = ranked([(2, "z", 0), (2, "y", 0), (1, "x", 0), (3, "x", 50), (4, "w", 0)], question="q")
    lines = [line.split() for line in trec_run(runs)]
    assert [line[2] for line in lines] == ["c/x", "c/z", "c/y", "c/w"]
    assert [(line[0], line[1], line[3], line[4], line[5]) for line in lines] == [
        ("q", "Q0", str(i), str(5 - i), "m") for i in (1, 2, 3, 4)
    ]


def test_ids_with_white_space_and_odd_characters_survive(tmp_path):
    runs = ranked([(1, "other doc", 0), (2, ODD, 0)], method="a → b")
    question = Question(ODD, "?", "k", "test", evidence=(Evidence("c", ODD, 0, 5), Evidence("c", ODD, 7, 9)))
    (tmp_path / "run").write_text("\n".join(trec_run(runs)), encoding="ascii")
    (tmp_path / "qrels").write_text("\n".join(trec_qrels([question])), encoding="ascii")
    run = list(ir_measures.read_trec_run(str(tmp_path / "run")))
    qrels = list(ir_measures.read_trec_qrels(str(tmp_path / "qrels")))
    assert [unquote(entry.doc_id) for entry in run] == ["c/other doc", f"c/{ODD}"]
    assert [(unquote(q.query_id), unquote(q.doc_id), q.relevance) for q in qrels] == [(ODD, f"c/{ODD}", 1)]
    (measured,) = evaluate(runs, {"s": [question]}, 2)["MRR"]
    assert ir_measures.calc_aggregate([RR], qrels, run)[RR] == measured == 0.5


@given(st.text(st.sampled_from("aAcO.é:→/ %+*\\1\x00"), min_size=1, max_size=6))
@example("..")
@example(".a")
def test_a_file_name_stays_in_its_folder_and_can_be_undone(name):
    text = file_name(name)
    assert unquote(text) == name
    assert text.isascii() and not set(text) & WINDOWS and " " not in text and "." not in text
    # Where a disk ignores case, `a` and `A` have a file each.
    assert file_name(name.swapcase()).casefold() != text.casefold() or name.swapcase() == name


def test_ordinary_method_names_stay_readable():
    assert [file_name(name) for name in ("mog-paper+topics", "dense:fixed-2")] == [
        "mog-paper+topics",
        "dense%3Afixed-2",
    ]


# What others open


def test_tables_are_those_of_the_project(sample_project, export):
    store = Tools(sample_project.settings).store
    for name, asset, file in [
        ("passages", "runs", "runs"),
        ("per_question", "scores", "per_question"),
        ("scores", "scores", "scores"),
        ("answer_scores", "answer_scores", "scores"),
        ("answer_per_question", "answer_scores", "per_question"),
    ]:
        kept = pd.read_parquet(store.read(asset).path(f"{file}.parquet"))
        pd.testing.assert_frame_equal(pd.read_parquet(export.folder / f"{name}.parquet"), kept)
        assert len(kept)
    answers = pd.read_parquet(export.folder / "answers.parquet")
    assert set(answers["method"]) == set(pd.read_parquet(export.folder / "answer_scores.parquet")["method"])
    for name in ("scores", "answer_scores"):
        read = pd.read_csv(export.folder / f"{name}.csv", keep_default_na=True)
        table = pd.read_parquet(export.folder / f"{name}.parquet")
        assert list(read.columns) == list(table.columns)
        assert read["value"].to_numpy() == pytest.approx(table["value"].to_numpy())
        assert read["method"].tolist() == table["method"].tolist()


def test_the_command_prints_the_files_that_are_there_and_no_other(export):
    printed = set(export.said.splitlines())
    assert printed == {str(path) for path in export.folder.rglob("*") if path.is_file()}
    assert {str(export.folder / name) for name in ("qrels/samples.txt", "scores.csv", "answer_scores.csv")} <= printed


def test_a_text_that_looks_like_a_formula_is_none_in_csv(tmp_path):
    texts = ["=1+1", "+topics", "-x", "@a", "\t=1", "\uff1d1", "plain", "a=b", "", 'quote " and, comma\nline']
    pd.DataFrame({"text": texts, "number": [-0.5] * len(texts)}).to_parquet(tmp_path / "t.parquet")
    write_csv(tmp_path / "t.parquet", tmp_path / "t.csv")
    read = pd.read_csv(tmp_path / "t.csv", keep_default_na=False)
    assert read["text"].tolist() == [f"'{text}" for text in texts[:6]] + texts[6:]
    assert (read["number"] == -0.5).all()


# Where it is written


def test_a_second_export_replaces_its_files_and_leaves_others(copied_project):
    folder = copied_project.folder / "export"
    old = folder / "runs" / "samples" / "of-before.trec"
    old.parent.mkdir(parents=True)
    old.write_text("mine", encoding="utf-8")
    (folder / "scores.csv").write_text("old", encoding="utf-8")
    result = exported(copied_project)
    assert result.exit_code == 0, result.output
    assert old.read_text(encoding="utf-8") == "mine"
    (complaint,) = result.stderr.splitlines()
    assert str(old) in complaint and "export" in complaint
    assert (folder / "scores.csv").read_text(encoding="utf-8").startswith("question_set,")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert exported(copied_project, "--to", folder).exit_code == 0
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_file_in_the_place_of_the_folder_is_refused_and_kept(sample_project, tmp_path):
    place = tmp_path / "file"
    place.write_text("mine", encoding="utf-8")
    result = exported(sample_project, "--to", place)
    assert result.exit_code == 2 and "--to: expected a folder" in result.stderr and str(place) in result.stderr
    below = exported(sample_project, "--to", place / "below")
    assert below.exit_code == 1 and str(place) in below.stderr
    inside = tmp_path / "folder"
    inside.mkdir()
    (inside / "runs").write_text("mine", encoding="utf-8")
    assert exported(sample_project, "--to", inside).exit_code == 1
    assert place.read_text(encoding="utf-8") == (inside / "runs").read_text(encoding="utf-8") == "mine"


def test_scores_of_questions_that_are_gone_are_not_exported(sample_project):
    store = Tools(sample_project.settings).store
    scored = store.read("scores")
    tables = (scored.path("per_question.parquet"), scored.path("scores.parquet"))
    with pytest.raises(MogError, match="question set samples: expected .* no longer exist.*run `mog run`"):
        retrieval_files(store.read("runs").path("runs.parquet"), *tables, {})


def test_a_project_without_answers_exports_what_there_is(copied_project):
    for asset in ("answers", "answer_scores"):
        shutil.rmtree(Tools(copied_project.settings).store.folder(asset))
    result = exported(copied_project)
    assert result.exit_code == 0 and "scores.parquet" in result.stdout
    assert not list((copied_project.folder / "export").glob("answer*"))


def test_scores_are_valid_json_where_nothing_was_compared(sample_project):
    result = called("scores", "--json", "--answers", "--config", sample_project.config)
    rows = json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    alone = [row for row in rows if row["method"] == "cot"]
    assert alone and all(row["difference"] is None and row["effect"] is None for row in alone)
    assert any(row["difference"] is not None for row in rows)
