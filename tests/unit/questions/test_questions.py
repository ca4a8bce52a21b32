"""Question sets as people have them: quotes, documents, answers; what trains and what measures."""

import json
import os

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mog_assets.build import plan
from mog_assets.build.materialising import materialise
from mog_assets.build.tools import Tools
from mog_assets.config import QuestionSetSettings
from mog_assets.evaluate.measures import Board, boards, document_measures, evaluate, measure_names
from mog_assets.evaluate.scores import score
from mog_assets.questions.assets import _keep_apart as keep_apart
from mog_assets.questions.reading import KnownDocument, QuestionReading, located, read_questions
from mog_assets.questions.sets import (
    SHARE,
    TEST,
    TRAIN,
    Evidence,
    Question,
    Relevant,
    divided,
    load_questions,
    sharing_evidence,
    write_questions,
)
from mog_assets.registry import QUESTION_SOURCES
from mog_assets.resources.errors import ConfigError

TEXTS = {
    ("garden", "soap.md"): "Soap must cure. It takes four weeks in a dry room, and longer in winter.",
    ("garden", "herbs/mint.md"): "Mint spreads. Keep it in a pot. It takes four weeks to root.",
    ("kitchen", "soap.md"): "Soap is not food.",
}
KNOWN = {
    corpus: {doc: KnownDocument(len(text), ()) for (owner, doc), text in TEXTS.items() if owner == corpus}
    for corpus in ("garden", "kitchen")
}


def read(*records, known=KNOWN, **more):
    places = [(f"q.jsonl:{i}", {"question": "How long?", **record}) for i, record in enumerate(records, start=1)]
    return located(places, known, lambda: TEXTS, **more)


def places(question):
    return [(e.corpus, e.doc, TEXTS[e.corpus, e.doc][e.start : e.end]) for e in question.evidence]


# What is known of an answer


def test_a_quote_that_stands_in_several_documents_is_evidence_in_all_unless_one_is_named():
    every, one = read(
        {"id": "every", "quote": "It takes four weeks"},
        {"id": "one", "quote": "It takes four weeks", "doc": "herbs/mint.md"},
    ).questions
    assert {doc for _, doc, _ in places(every)} == {"soap.md", "herbs/mint.md"}
    assert places(one) == [("garden", "herbs/mint.md", "It takes four weeks")]


def test_quotes_and_offsets_of_one_question_are_all_evidence():
    record = {
        "id": "q",
        "evidence": [{"quote": "Mint spreads."}, {"corpus": "kitchen", "doc": "soap.md", "start": 0, "end": 4}],
    }
    (found,) = read(record).questions
    assert places(found) == [("garden", "herbs/mint.md", "Mint spreads."), ("kitchen", "soap.md", "Soap")]


def test_a_quote_that_is_not_found_leaves_what_else_is_known_and_is_told():
    reading = read(
        {"id": "document", "quote": "Nobody wrote this sentence anywhere.", "doc": "herbs/mint.md"},
        {"id": "answer", "quote": "Nobody wrote this sentence anywhere.", "answer": "four weeks"},
        {"id": "none", "quote": "Nobody wrote this sentence anywhere."},
        {"id": "piece", "evidence": [{"quote": "Nobody wrote this sentence anywhere.", "doc": "mint"}]},
        {"id": "half", "quote": ["Nobody wrote this sentence anywhere.", "Mint spreads."]},
    )
    assert [q.level for q in reading.questions] == ["documents", "answer", "none", "documents", "spans"]
    assert all("Nobody wrote this" in row["not found"] for row in reading.reports)
    assert places(reading.questions[4]) == [("garden", "herbs/mint.md", "Mint spreads.")]


def test_offsets_are_taken_where_a_quote_stands_beside_them():
    record = {"corpus": "garden", "doc": "soap.md", "start": 0, "end": 4, "quote": "It takes four weeks"}
    (found,) = read({"id": "q", "evidence": [record]}).questions
    assert places(found) == [("garden", "soap.md", "Soap")]


def test_how_each_quote_was_found_is_told():
    reading = read(
        {"id": "exact", "quote": "Keep it in a pot"},
        {"id": "normalised", "quote": "KEEP it  in a POT"},
        {"id": "offsets", "doc": "soap.md", "corpus": "kitchen", "start": 0, "end": 4},
        {"id": "none"},
    )
    assert [(row["found"], row["places"]) for row in reading.reports] == [
        ("exact", 1),
        ("normalised", 1),
        ("offsets", 1),
        ("", 0),
    ]


def test_documents_may_be_named_by_id_by_corpus_and_id_or_by_the_name_of_their_file():
    names = ["herbs/mint.md", "garden/herbs/mint.md", "mint.md", "Mint", "MINT.MD"]
    for found in read(*({"id": name, "docs": [name]} for name in names)).questions:
        assert found.relevant == (Relevant("garden", "herbs/mint.md", 1),)
        assert found.level == "documents"


def test_a_name_that_several_documents_have_is_not_guessed():
    reading = read({"id": "q", "docs": ["soap.md"]}, {"id": "r", "docs": ["kitchen/soap.md"]})
    assert [q.level for q in reading.questions] == ["none", "documents"]
    assert "may be any of garden/soap.md, kitchen/soap.md" in reading.reports[0]["not found"]


def test_grades_are_kept_and_those_below_zero_count_as_zero():
    (found,) = read({"id": "q", "docs": {"mint": 2, "kitchen/soap.md": -2}}).questions
    assert found.grades == {("garden", "herbs/mint.md"): 2, ("kitchen", "soap.md"): 0}
    (nothing,) = read({"id": "q", "docs": {"mint": 0}}).questions
    assert nothing.level == "none" and nothing.document == "/q"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"docs": 3}, "docs: expected texts separated by '|' or a list of texts, got int '3'"),
        ({"docs": {"mint": "high"}}, "docs: expected an integer, got str 'high'"),
        ({"docs": {"mint": True}}, "docs: expected an integer, got bool 'True'"),
        ({"quote": 7}, "quote: expected a text or a list of texts"),
        ({"evidence": [{"quote": "Mint", "prefix": ["a"]}]}, "prefix: expected a text"),
        ({"evidence": [{"quote": " "}]}, "evidence: expected objects with a quote"),
        ({"start": 0, "end": 4, "doc": "soap.md"}, "may be any of"),
    ],
)
def test_what_is_no_evidence_is_a_problem_of_its_question_alone(wrong, reason):
    reading = read({"id": "wrong", **wrong}, {"id": "good", "quote": "Mint spreads."})
    assert [q.id for q in reading.questions] == ["good"]
    (problem,) = reading.problems
    assert problem["place"] == "q.jsonl:1" and reason in problem["reason"]


def test_rows_of_one_question_may_name_documents_of_a_corpus_that_is_not_searched_and_of_one_that_is(tmp_path):
    rows = ["How long?,soap.md,attic", "How long?,soap.md,kitchen"]
    for order in (rows, rows[::-1]):
        (tmp_path / "q.csv").write_text("\n".join(["question,doc,corpus", *order]), encoding="utf-8")
        (found,) = read_questions(tmp_path / "q.csv", KNOWN).questions
        assert found.relevant == (Relevant("kitchen", "soap.md"),)


# Splits


def asked(number, doc="a", **more):
    return Question(f"q{number}", f"What is {number}?", "", "", evidence=(Evidence("c", doc, 0, 9),), **more)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.lists(st.integers(0, 40), max_size=20))
def test_no_question_moves_when_others_are_added_and_both_parts_are_there(documents, more):
    questions = [asked(i, f"d{doc}") for i, doc in enumerate(documents)]
    added = [*questions, *(asked(i + 100, f"d{doc}") for i, doc in enumerate(more))]
    before, after = ({q.id: q.split for q in divided(some)} for some in (questions, added))
    parts = [{q.split for q in divided(some)} for some in (questions, added)]
    if all(part == {TRAIN, TEST} for part in parts) and len(set(documents)) > 20:
        assert all(after[identity] == split for identity, split in before.items())
    assert len(questions) < 2 or parts[0] == {TRAIN, TEST}


def test_questions_about_a_document_stay_together():
    found = divided([asked(i, f"d{i % 12}") for i in range(60)])
    parts = {}
    for question in found:
        parts.setdefault(question.document, set()).add(question.split)
    assert all(len(splits) == 1 for splits in parts.values())


def test_about_half_of_many_documents_measure():
    found = divided([asked(i, f"d{i}") for i in range(2000)])
    assert abs(sum(q.split == TEST for q in found) / 2000 - SHARE) < 0.04


def test_a_training_question_that_asks_for_the_same_as_a_test_question_does_not_train():
    mint, soap = Relevant("g", "mint"), Relevant("g", "soap")
    tested = [
        Question("t1", "How is mint kept?", "", "test", relevant=(mint, soap)),
        Question("t2", "Who was Priscus?", "", "test", answer="a rhetor"),
    ]
    trained = [
        Question("same need", "Where does mint grow?", "", "train", relevant=(mint,)),
        Question("another need", "What of both?", "", "train", relevant=(mint, Relevant("g", "thyme"))),
        Question("same words", "who was  priscus?", "", "train", answer="a diplomat"),
        Question("other words", "Who was Attila?", "", "train", answer="a king"),
    ]
    assert [q.id for q in sharing_evidence(trained, tested)] == ["same need", "same words"]


# Measures of questions of which only documents are known


def runs_of(question, documents, method="fixed-1"):
    rows = [("s", question, method, i, "c", doc, 0, 100, 20) for i, doc in enumerate(documents, start=1)]
    return pd.DataFrame(
        rows, columns=["question_set", "question", "method", "rank", "corpus", "doc", "start", "end", "tokens"]
    )


def test_relevant_documents_have_graded_measures_and_a_board_of_their_own():
    judged = (Relevant("c", "a", 2), Relevant("c", "b", 1), Relevant("c", "x", 0))
    questions = {
        "s": [
            Question("docs", "?", "", "test", relevant=judged),
            Question("span", "?", "", "test", evidence=(Evidence("c", "a", 0, 50),)),
        ]
    }
    runs = pd.concat([runs_of("docs", ["b", "x", "a"]), runs_of("span", ["a"])])
    table = evaluate(runs, questions, 2)
    found = dict(boards(table))
    assert set(found) == {Board("s", "test", "spans"), Board("s", "test", "documents")}
    row = found[Board("s", "test", "documents")].iloc[0]
    # (1 + 2 / log2(4)) / (2 + 1 / log2(3)), with linear gains as trec_eval has them.
    assert row["nDCG@10"] == pytest.approx((1 + 2 / 2) / (2 + 1 / np.log2(3)))
    assert row["MRR"] == 1 and row["Recall@10"] == 1
    assert row[[n for n in measure_names(2) if n not in document_measures(2)]].isna().all()
    scores = score(table, 2, 0, {"fixed-1": ("bm25", "fixed")})
    by_documents = scores[scores["evidence"] == "documents"]
    assert set(by_documents["measure"]) == set(document_measures(2))
    assert not by_documents["value"].isna().any()


# The asset


def write_project(folder, make_project, records, **question_set):
    lines = [
        json.dumps({"id": doc, "title": doc, "text": text}) for (owner, doc), text in TEXTS.items() if owner == "garden"
    ]
    (folder / "garden.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (folder / "q.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    sets = {"q": {"path": "q.jsonl", "corpora": ["garden"], **question_set}}
    return make_project(folder, {"corpora": {"garden": {"path": "garden.jsonl"}}, "question_sets": sets})


def built(project):
    tools, recipes = Tools(project.settings), plan.graph(project.settings)
    materialise(recipes["documents"], "garden", tools, recipes)
    return materialise(recipes["questions"], None, tools, recipes).artefact


def test_the_asset_says_question_by_question_what_was_found(make_project, tmp_path):
    records = [
        {"id": "a", "question": "Where?", "quote": "Keep it in a pot."},
        {"id": "b", "question": "How long?", "quote": "It takes four weeks in a dry room"},
        {"id": "c", "question": "Why?", "quote": "Because of something nobody wrote down.", "answer": "so"},
    ]
    stored = built(write_project(tmp_path, make_project, records))
    told = pd.read_parquet(stored.path("_evidence.parquet")).set_index("id")
    assert told["level"].to_dict() == {"a": "spans", "b": "spans", "c": "answer"}
    assert told.loc["c", "not found"] and not told.loc["a", "not found"]
    said = stored.manifest.info["summary"]["q"]
    assert said["divided"] == 3 and said["lost"] == 1 and said["first lost"].startswith("q.jsonl:3: ")
    assert said["train"]["questions"] + said["test"]["questions"] == 3


def test_a_quote_is_found_again_after_its_document_was_edited(make_project, tmp_path):
    quotes = {"a": "Keep it in a pot.", "b": "Soap must cure."}
    records = [{"id": identity, "question": "What?", "quote": quote} for identity, quote in quotes.items()]
    project = write_project(tmp_path, make_project, records)
    before = {q.id: q for q in load_questions(built(project).path("q.parquet"))}
    path = tmp_path / "garden.jsonl"
    path.write_text(
        path.read_text(encoding="utf-8").replace("Mint spreads.", "Mint spreads far and wide."), encoding="utf-8"
    )
    after = {q.id: q for q in load_questions(built(project).path("q.parquet"))}
    shift = len(" far and wide")
    assert after["a"].evidence[0].start == before["a"].evidence[0].start + shift
    assert after["b"].evidence == before["b"].evidence


@pytest.mark.whole
@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"source": "generated"}, "expected either the path of a file"),
        ({"source": "use", "path": None}, ""),
        ({"path": None}, "expected either the path of a file"),
    ],
)
def test_a_set_comes_from_one_place(make_project, tmp_path, wrong, expected):
    if expected:
        with pytest.raises(ConfigError, match=expected):
            write_project(tmp_path, make_project, [], **wrong)
    else:
        found = write_project(tmp_path, make_project, [], **wrong).settings.question_sets["q"]
        assert (found.train, found.test) == (["train"], [])


@pytest.mark.whole
def test_no_question_of_people_makes_way_for_one_that_was_made(make_project, tmp_path):
    records = [
        {"id": "own", "question": "Where does mint belong?", "split": "train", "quote": "Keep it in a pot."},
        {"id": "test", "question": "How long?", "split": "test", "quote": "It takes four weeks in a dry room"},
    ]
    project = write_project(tmp_path, make_project, records)
    sets = project.settings.question_sets
    sets["made"] = sets["q"].model_copy(update={"path": None, "source": "generated"})

    def reading(*questions):
        return QuestionReading(list(questions))

    def made(identity, split, start, end, doc="herbs/mint.md"):
        evidence = (Evidence("garden", doc, start, end),)
        return Question(identity, f"{identity}?", "", split, evidence=evidence, origin="generated")

    own = read(*records).questions
    mint, soap = own[0].evidence[0], own[1].evidence[0]
    readings = {
        "q": reading(*own),
        "made": reading(
            made("mint", "test", mint.start, mint.end),
            made("apart", "test", 0, 5),
            made("soap", "train", soap.start, soap.end, "soap.md"),
        ),
    }
    left_out = keep_apart(readings, sets)
    assert [q.id for q in readings["q"].questions] == ["own", "test"] and left_out["q"] == 0
    assert [q.id for q in readings["made"].questions] == ["apart"]


def test_a_document_of_a_corpus_that_is_not_searched_is_no_other_of_that_name():
    for record in ({"docs": ["soap.md"]}, {"doc": "soap.md"}, {"doc": "soap.md", "start": 0, "end": 4}):
        reading = read({"id": "q", "corpus": "attic", **record})
        assert (reading.elsewhere, reading.questions) == (1, [])


def test_a_quote_is_looked_for_everywhere_if_nobody_knows_the_document_that_is_named():
    reading = read({"id": "q", "quote": "Keep it in a pot", "doc": "https://example.org/mint"})
    assert places(reading.questions[0]) == [("garden", "herbs/mint.md", "Keep it in a pot")]
    assert reading.reports[0]["not found"].count("https://example.org/mint") == 1


def test_a_name_is_the_same_composed_or_not():
    known = {"c": {"Bu\u0308cher.md": KnownDocument(9, ())}}
    (found,) = read({"id": "q", "docs": ["B\u00fccher.md"]}, known=known).questions
    assert found.document == "c/Bu\u0308cher.md"


def test_an_empty_set_has_columns(tmp_path):
    write_questions([], tmp_path / "q.parquet")
    assert load_questions(tmp_path / "q.parquet") == []
    assert "question" in pd.read_parquet(tmp_path / "q.parquet").columns


@pytest.mark.whole
def test_what_people_used_trains_and_leaves_no_text_in_what_the_ui_shows(make_project, tmp_path):
    from mog_assets.plugins.feedback.use import log_path, note_used, quoted

    project = write_project(tmp_path, make_project, [], path=None, source="use")
    text = TEXTS["garden", "herbs/mint.md"]
    start = text.index("Keep it in a pot.")
    path = log_path(project.settings.home)
    mint = quoted("garden", "herbs/mint.md", text, start, start + 17)
    gone = quoted("garden", "gone", "Words of a removed page.", 0, 24)
    note_used(path, "Where does mint belong?", [mint], "fused", "v")
    note_used(path, "Who wrote this?", [gone], "fused", "v")
    stored = built(project)
    mint, gone = sorted(load_questions(stored.path("q.parquet")), key=lambda q: q.level, reverse=True)
    assert (mint.split, mint.origin, gone.level) == ("train", "use", "none")
    assert places(mint) == [("garden", "herbs/mint.md", "Keep it in a pot.")]
    shown = list((project.settings.home / "store" / "questions").rglob("shown*"))
    assert shown
    told = "".join(file.read_text(encoding="utf-8") for file in shown)
    assert not any(words in told for words in ("mint belong", "wrote this", "removed page"))


@pytest.mark.timeout(60)
def test_a_look_at_questions_waits_for_no_pipe_and_says_what_cannot_be_read(tmp_path):
    file, link, pipe = tmp_path / "questions.jsonl", tmp_path / "link.jsonl", tmp_path / "pipe.jsonl"
    file.write_text("{}", encoding="utf-8")
    link.symlink_to(file)
    os.mkfifo(pipe)

    def state(path):
        return QUESTION_SOURCES["file"].state(None, QuestionSetSettings(path=path, corpora=["notes"]))

    assert state(file) == state(link) and len(state(file)) == 64
    assert state(tmp_path / "missing.jsonl") is None
    assert all(state(path).startswith("cannot be read: ") for path in (pipe, tmp_path))
