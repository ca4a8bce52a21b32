"""Experiments on answering: contexts are what they are said to be, counts agree with the answers, cells are kept."""

import contextlib
import functools
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml
from shared import VARIABLES, copy_folder

from mog_assets import config
from mog_assets.answer.answerers import serial
from mog_assets.answer.extractive import Extractive
from mog_assets.answer.notation import is_control
from mog_assets.answer.roles import Reply, Usage
from mog_assets.answer.rows import read_answers
from mog_assets.build.tools import Tools
from mog_assets.config import AnsweringSettings
from mog_assets.index.corpora import Corpora
from mog_assets.papers.at_rag import experiments as loop
from mog_assets.papers.briefcontext.experiments import briefcontext, conflicts
from mog_assets.papers.briefcontext.preflight_quality import preflight_cases, preflight_quality
from mog_assets.papers.experiments import contexts
from mog_assets.papers.experiments.answers import flip_rows, of_model
from mog_assets.papers.experiments.assets import all_answered, findings, offered, remembering
from mog_assets.papers.experiments.commands import do
from mog_assets.papers.experiments.contexts import place
from mog_assets.papers.experiments.costs import map_reduce_relation
from mog_assets.papers.experiments.lab import Lab
from mog_assets.papers.topics.assign import read_topics
from mog_assets.questions.marks import exact_match
from mog_assets.questions.sets import Question, load_questions
from mog_assets.resources.errors import MogError
from mog_assets.resources.llm import Tally
from mog_assets.search.retrieval import Retrieval

NAMES = ("key-position", "conflicts", "documents", "distractors", "preflight", "at-rag", "flips", "cost")
POSITIONS, TOP_K, DOCUMENTS = [0, 50, 100], [4, 8], [1, 2, 4, 8]
SET = "samples"
# What takes the project with every experiment.
of_every_experiment = pytest.mark.full


@pytest.fixture(scope="module")
def done(sample_project, tmp_path_factory):
    """A copy of the sample project with every experiment on answering, the first of which was interrupted once."""
    folder = tmp_path_factory.mktemp("experiments") / "copy"
    copy_folder(sample_project.folder, folder)
    values = yaml.safe_load((folder / "mog.yaml").read_text(encoding="utf-8"))
    values["experiments"] = {"positions": POSITIONS, "top_k": TOP_K, "documents": DOCUMENTS}
    (folder / "mog.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    settings = config.load(folder / "mog.yaml")
    with pytest.MonkeyPatch.context() as patch:
        for name in VARIABLES:
            patch.delenv(name, raising=False)
        asked, answer = [], Extractive.answer

        def breaks(reader, question, passages, thoughts=()):
            asked.append(question.id)
            if asked.count(question.id) > 1:
                raise MogError("the reader is gone")
            return answer(reader, question, passages, thoughts)

        patch.setattr(Extractive, "answer", breaks)
        interrupted = do(settings, ["distractors"])
        patch.setattr(Extractive, "answer", answer)
        report = do(settings, NAMES)
        again = do(settings, NAMES)
    tools = Tools(settings)
    stored = tools.store.read("answers")
    answers = read_answers(stored.path, stored.names())
    questions = load_questions(tools.store.read("questions").path(f"{SET}.parquet"), ["dev"])
    return SimpleNamespace(
        settings=settings,
        tools=tools,
        interrupted=interrupted,
        report=report,
        again=again,
        steps={step["asset"].removeprefix("experiments/"): step for step in report.steps},
        found={name: findings(tools.store, name) for name in NAMES},
        answers=answers[~answers["method"].map(is_control)],
        questions={q.id: q for q in questions},
    )


def lab_of(done, roles, **experiments):
    """A lab over the project in which `roles` answer, as a language model would; it keeps no cell."""
    changed = {"experiments": done.settings.experiments.model_copy(update=experiments)}
    changed["answering"] = AnsweringSettings(reader="openai")
    return Lab(
        settings=done.settings.model_copy(update=changed),
        read=done.tools.store.read,
        encode=done.tools.encoder.encode,
        encode_anew=done.tools.encoder.encode,
        encoder=done.tools.encoder.fingerprint,
        other_encoder=None,
        open_retrieval=functools.partial(Retrieval.open, done.tools, done.tools.store.read),
        cached=lambda name, key, make: make(),
        progress=lambda total, what: contextlib.nullcontext(lambda n: None),
        open_reader=lambda: roles,
        each=serial,
    )


class NearSighted:
    """Answers right if a gold document is among the first `sees` passages that it is given; keeps what it was given."""

    reader, token_unit = "near-sighted", "words"

    def __init__(self, questions, sees):
        self.questions, self.sees = questions, sees
        self.answered, self.extracted = [], []

    def _sees(self, asked, passages):
        return any(gold_document(self.questions[asked.id], passage) for passage in passages[: self.sees])

    def _reply(self, value):
        return Reply(value, value, self.reader, Usage(1))

    def answer(self, asked, passages, thoughts=()):
        self.answered.append((asked.id, tuple(passages)))
        return self._reply(self.questions[asked.id].answer if self._sees(asked, passages) else "wrong")

    def play(self, role, asked, read):
        return {"extract": self.extract, "reduce": self.reduce}[role.name](asked, read)

    def extract(self, asked, passages):
        self.extracted.append((asked.id, tuple(passages)))
        return self._reply("here" if self._sees(asked, passages) else "")

    def reduce(self, asked, extractions):
        return self._reply(self.questions[asked.id].answer if extractions else "wrong")


def gold_document(question, passage):
    return (passage.corpus, passage.doc) in {(e.corpus, e.doc) for e in question.evidence}


def rows(done, name, start):
    """The rows of the table whose title begins so."""
    (table,) = [table for title, table in done.found[name].tables.items() if title.startswith(start)]
    return table


def value(scores, cell):
    return scores[(scores["cell"] == cell) & (scores["measure"] == "exact match")]["value"].item()


# Running them


@of_every_experiment
def test_every_experiment_on_answering_is_offered_and_runs(done):
    assert set(NAMES) <= {experiment.name for experiment in offered(done.settings)}
    assert done.report.failures == [] and set(NAMES) <= set(done.steps)
    for name, told in done.found.items():
        assert told.tables and all(told.tables.values()), name
        assert told.claims, name
        for claim in told.claims:
            assert claim["verdict"] in ("seen", "not seen", "not testable here") and claim["because"], claim


@of_every_experiment
def test_an_interrupted_experiment_keeps_the_cells_that_it_had_made(done):
    assert done.interrupted.failures and "the reader is gone" in done.interrupted.failures[0]
    assert done.steps["distractors"]["recomputed"]["cells"] == 1
    assert done.steps["documents"]["recomputed"]["cells"] == len(DOCUMENTS)
    assert done.steps["key-position"]["recomputed"]["cells"] == 2 * len(POSITIONS) * len(TOP_K)


@of_every_experiment
def test_a_second_run_makes_nothing_and_other_options_make_no_cell_again(done, materialise_project):
    assert done.again.steps == [] and done.again.failures == []
    fewer = done.settings.experiments.model_copy(update={"positions": POSITIONS[:2], "documents": DOCUMENTS[1:]})
    report = materialise_project(
        done.settings.model_copy(update={"experiments": fewer}), select=["experiments/key-position"]
    )
    (step,) = report.steps
    assert step["seconds"] > 0 and step["recomputed"] == {}


@of_every_experiment
def test_a_claim_about_language_models_is_not_decided_by_the_embedded_reader(done):
    verdicts = {name: {claim["verdict"] for claim in told.claims} for name, told in done.found.items()}
    for name in ("key-position", "documents", "distractors", "conflicts", "flips", "cost"):
        assert verdicts[name] == {"not testable here"}
    # The preflight is about rankings: it is testable by any reader, where key documents are below the top.
    assert all("no key document" in claim["because"] for claim in done.found["preflight"].claims)
    for claim in done.found["documents"].claims:
        assert "extractive-" in claim["because"] and "p = " in claim["because"]


@pytest.mark.parts("trained")
@pytest.mark.parametrize("reader", ["neural", "trained", "openai"])
def test_a_claim_about_models_is_decided_by_any_that_reads_and_says_which(reader):
    lab = SimpleNamespace(settings=SimpleNamespace(answering=AnsweringSettings(reader=reader)), reads=True)
    claim = of_model(lab, "paper", "claim", "seen", "+0.1")
    assert claim.verdict == "seen"
    assert claim.because == ("+0.1" if reader == "openai" else f"+0.1; read by the {reader} reader")


# Contexts


@of_every_experiment
def test_the_key_document_stands_where_it_is_said_to_and_no_other_passage_is_of_a_gold_document(done):
    reader = NearSighted(done.questions, 1)
    briefcontext.key_position(lab_of(done, reader, top_k=[8]))
    asked = len(reader.answered) // len(POSITIONS)
    assert asked > 10
    for number, position in enumerate(POSITIONS):
        here = reader.answered[number * asked : (number + 1) * asked]
        for identity, passages in here:
            question = done.questions[identity]
            at = [i for i, passage in enumerate(passages) if gold_document(question, passage)]
            assert len(passages) == len(set(passages)) == 8 and at == [{0: 0, 50: 4, 100: 7}[position]]
            ((corpus, doc, start, end),) = passages[at[0]].spans
            assert passages[at[0]].level == 2
            assert any(
                (e.corpus, e.doc) == (corpus, doc) and e.start < end and start < e.end for e in question.evidence
            )
    # The others keep their order wherever the key document stands.
    others = [
        [[p for p in passages if not gold_document(done.questions[identity], p)] for identity, passages in part]
        for part in (reader.answered[i * asked : (i + 1) * asked] for i in range(len(POSITIONS)))
    ]
    assert others[0] == others[1] == others[2]


@of_every_experiment
def test_random_distractors_are_drawn_and_of_no_gold_document(done):
    drawn = []
    for _ in range(2):
        reader = NearSighted(done.questions, 1)
        briefcontext.distractors(lab_of(done, reader))
        half = len(reader.answered) // 2
        relevant, random = dict(reader.answered[:half]), dict(reader.answered[half:])
        drawn.append(random)
        assert relevant.keys() == random.keys() and len(random) > 10
        for identity, passages in random.items():
            assert len(passages) == len(set(passages)) == max(TOP_K)
            gold = [gold_document(done.questions[identity], passage) for passage in passages]
            assert gold.index(True) == place(50, max(TOP_K)) and sum(gold) == 1
            assert passages[gold.index(True)] == relevant[identity][gold.index(True)]
    assert drawn[0] == drawn[1]
    shared = [len(set(relevant[i]) & set(random[i])) - 1 for i in random]
    assert np.mean(shared) < max(TOP_K) / 2
    assert len({passages[0] for passages in random.values()}) > 10


@of_every_experiment
def test_questions_that_no_whole_context_can_be_made_of_are_told(done):
    found = briefcontext.distractors(lab_of(done, NearSighted(done.questions, 1), top_k=[1000]))
    assert found.scores.empty and [claim.verdict for claim in found.claims] == ["not testable here"]
    ((none,),) = found.tables.values()
    assert none["of which a whole context could be made"] == 0
    assert "999 retrieved passages" in none["why none"] and "lower experiments.top_k" in none["why none"]
    assert none["why none"] in found.claims[0].because
    (row,) = rows(done, "documents", "questions")
    asked = [q for q in done.questions.values() if q.answer and q.evidence]
    assert row["questions with an answer and evidence"] == len(asked)
    assert 10 < row["of which a whole context could be made"] <= len(asked)


# A reader that loses what is in the middle


@of_every_experiment
def test_a_reader_that_reads_the_first_documents_only_shows_what_the_paper_claims(done):
    found = briefcontext.key_position(lab_of(done, NearSighted(done.questions, 2)))
    for top_k in TOP_K:
        for position in POSITIONS:
            one = value(found.scores, f"top {top_k}, {position} %, one prompt")
            assert one == float(place(position, top_k) < 2), (top_k, position)
            assert value(found.scores, f"top {top_k}, {position} %, map-reduce") == 1
    assert value(found.scores, "top 8, mean, one prompt") == pytest.approx(1 / 3)
    assert [claim.verdict for claim in found.claims][0] == "seen"
    # Last and middle are lost alike: that the ends are better than the middle follows from the first position.
    assert value(found.scores, "top 8, first and last, one prompt") == 0.5
    assert [claim.verdict for claim in found.claims][1] == "seen"


@of_every_experiment
def test_a_reader_that_reads_everything_shows_none_of_it(done):
    reader = NearSighted(done.questions, 99)
    claims = [
        *briefcontext.key_position(lab_of(done, reader)).claims,
        *briefcontext.documents(lab_of(done, reader)).claims,
    ]
    assert {claim.verdict for claim in claims} == {"not seen"} and len(claims) == 3
    # Differences that are all 0 do not tell what could have been shown.
    assert all("that show nothing" in claim.because for claim in claims)


# Conflicts


@pytest.mark.parametrize(("sees", "disagree"), [(99, True), (0, False)])
@of_every_experiment
def test_conflicts_are_contexts_whose_partitions_alone_are_answered_differently(done, monkeypatch, sees, disagree):
    known = contexts.candidates

    def with_options(lab):
        asked = known(lab)
        return {n: [replace(q, options={"A": "x", "B": "y"}, answer="A") for q in qs] for n, qs in asked.items()}

    monkeypatch.setattr(contexts, "candidates", with_options)
    # One partition holds the key document, so that one answers right and the others do not.
    found = conflicts.conflicts(lab_of(done, NearSighted(done.questions, sees)))
    *cells, whole = found.tables[f"{SET}: contexts whose partitions disagree"]
    number = len(TOP_K) * len(POSITIONS)
    assert len(cells) == (number if disagree else 0) and whole["of"] > 10 * number
    for row in (*cells, whole):
        assert row["conflicts"] == (row["of"] if disagree else 0)
        assert row["win"] + row["tie"] + row["lose"] == row["conflicts"] >= row["resolved"]
    for name in ("conflicts", "resolved", "win", "tie", "lose", "of") if disagree else ():
        assert whole[name] == sum(row[name] for row in cells)
    assert all((claim.verdict == "not testable here") != disagree for claim in found.claims) and len(found.claims) == 2


@pytest.mark.parametrize(
    ("said", "conflict"),
    [
        ((), False),
        (("the river Rhine",), False),
        (("the river Rhine", "Rhine"), False),
        (("the river Rhine", "Rhine", "the Danube"), True),
    ],
)
def test_open_answers_conflict_if_they_share_less_than_half_of_their_words(said, conflict):
    assert conflicts.differ(said, Question("q", "Which river?", "open", "test")) == conflict


@of_every_experiment
def test_a_question_set_without_answers_is_skipped_with_a_reason(done, monkeypatch):
    monkeypatch.setattr(contexts, "candidates", lambda lab: {})
    lab = lab_of(done, NearSighted(done.questions, 1))
    runs = (briefcontext.key_position, conflicts.conflicts, briefcontext.documents, briefcontext.distractors)
    for run in runs:
        found = run(lab)
        assert found.claims and {claim.verdict for claim in found.claims} == {"not testable here"}
        assert found.tables["questions"][0]["why none"].startswith("no test question")


def test_a_conflict_is_resolved_where_the_reduce_is_right():
    right = [("a", 1, 0), ("b", 1, 1), ("c", 0, 1), ("d", 0, 0), ("e", 1, 0)]
    found = pd.DataFrame(right, columns=["document", "map-reduce", "one prompt"]).assign(top_k=8, position=50)
    row, whole = conflicts.conflict_rows(found, 0)
    expected = {"conflicts": 5, "resolved": 3, "win": 2, "tie": 2, "lose": 1}
    assert {name: row[name] for name in expected} == {name: whole[name] for name in expected} == expected
    assert row["p value"] == 1 and row["share"].startswith("0.600 [")


# Answers that are there


@of_every_experiment
def test_flips_agree_with_the_answers(done):
    right = {
        (row["question"], row["method"]): bool(
            row["answer"] and exact_match(row["answer"], [done.questions[row["question"]].answer])
        )
        for row in done.answers.to_dict("records")
    }
    asked = set(done.answers["question"])
    ways = [way for way in dict.fromkeys(done.answers["method"]) if way != "cot"]
    table = [row for row in rows(done, "flips", f"{SET}: answers") if row["kind"] == "all"]
    assert [row["way"] for row in table] == ways
    for row in table:
        counts = [row[name] for name in ("remain wrong", "improved", "degraded", "remain correct")]
        pairs = [(right[q, "cot"], right[q, row["way"]]) for q in asked]
        assert counts == [pairs.count(pair) for pair in ((False, False), (False, True), (True, False), (True, True))]
        assert sum(counts) == row["n"] == len(asked)
        kinds = [
            other
            for other in rows(done, "flips", f"{SET}: answers")
            if other["way"] == row["way"] and other["kind"] != "all"
        ]
        for name in ("improved", "degraded", "remain correct", "remain wrong", "n"):
            assert row[name] == sum(other[name] for other in kinds)


def test_flips_are_tested_exactly_and_for_all_of_them_together():
    right = {"cot": [0] * 8 + [1, 1], "better": [1] * 8 + [1, 1], "other": [0] * 8 + [1, 0]}
    marks = pd.DataFrame(
        [
            {"question": str(i), "document": f"d{i}", "method": method, "exact match": value, "answered": True}
            for method, values in right.items()
            for i, value in enumerate(values)
        ]
    )
    better, other = flip_rows(marks, dict.fromkeys(map(str, range(10)), "open"), 0)
    assert (better["improved"], better["degraded"], other["improved"], other["degraded"]) == (8, 0, 0, 1)
    # Two-sided sign test of 8 to 0, doubled by Holm for two ways.
    assert better["p value"] == pytest.approx(2 * 2 * 0.5**8) and other["p value"] == 1


@of_every_experiment
def test_preflight_is_what_the_evaluation_says_with_intervals_around_it(done):
    (row,) = preflight_quality(preflight_cases(done.answers, {SET: list(done.questions.values())}))
    shown = {r["measure"]: r for r in rows(done, "preflight", f"{SET}, {row['method']}")}
    assert [shown[x]["here"] for x in ("TP", "FP", "FN", "TN")] == [str(row[x]) for x in ("tp", "fp", "fn", "tn")]
    assert [shown[x]["in the paper"] for x in ("precision", "recall", "F1")] == ["0.5018", "0.9261", "0.6509"]
    for measure, key in (("precision", "precision"), ("recall", "recall"), ("F1", "f1")):
        assert shown[measure]["here"].startswith("" if row[key] is None else f"{row[key]:.3f} [")


@of_every_experiment
def test_costs_are_the_sums_over_the_answers(done):
    table = {row["way"]: row for row in rows(done, "cost", f"{SET}: cost")}
    assert list(table) == [row["way"] for row in rows(done, "cost", f"{SET}: cost")]
    for way, part in done.answers.groupby("method"):
        row, passages = table[way], [p for text in part["passages"] for p in json.loads(text)]
        assert (row["calls"], row["read"], row["written"]) == tuple(
            part[name].sum() for name in ("calls", "tokens_in", "tokens_out")
        )
        assert row["characters passed on"] == sum(len(p["text"]) for p in passages)
        assert (row["passages passed on"], row["n"]) == (len(passages), len(part))
    assert table["cot"]["characters passed on"] == 0 < table["auto → briefcontext"]["characters passed on"]


def answers_of(way, number, words, read, extractions):
    """Answers to `number` questions with passages of `words` and more words, and what was read for them."""
    return pd.DataFrame(
        {
            "method": way,
            "document": [f"{way} {i}" for i in range(number)],
            "passages": [json.dumps([{"text": "w " * (words + i)}]) for i in range(number)],
            "tokens_in": [read(words + i) for i in range(number)],
            "token_unit": "tokens",
            "calls": 1 if extractions is None else extractions + 1,
            "failures": "[]",
            "extractions": "null" if extractions is None else json.dumps(["x"] * extractions),
        }
    )


def test_what_a_map_reduce_reads_is_laid_beside_the_formula_of_the_paper():
    # 1.3 tokens a word, an instruction of 50 tokens; the last call of a map-reduce reads it and 100 tokens extracted.
    one = answers_of("one-step", 20, 100, lambda words: 1.3 * words + 50, None)
    four = answers_of("briefcontext", 20, 400, lambda words: 1.3 * words + 5 * 50 + 100, 4)
    (row,) = map_reduce_relation(pd.concat([one, four], ignore_index=True), 0)
    context = 1.3 * (400 + 9.5)
    assert (row["way"], row["n"], row["M"]) == ("briefcontext", 20, 4)
    assert row["N_con"] == pytest.approx(context) and row["N_ins"] == pytest.approx(50)
    assert row["N_con + M N_ins"] == pytest.approx(context + 200)
    assert row["read"] - row["N_con + M N_ins"] == pytest.approx(150)
    assert row["beyond"] == pytest.approx(150 / (context + 200), rel=1e-3)
    assert row["extra"] == pytest.approx(300 / (context + 50), rel=1e-3)
    for name in ("beyond", "extra"):
        low, high = row[f"{name}_interval"]
        assert low < row[name] < high
    assert map_reduce_relation(one, 0) is None and map_reduce_relation(four, 0) is None


@of_every_experiment
def test_rounds_and_fallbacks_are_those_of_the_answers(done):
    (row,) = rows(done, "at-rag", f"{SET}: rounds")
    part = done.answers[done.answers["method"] == row["way"]]
    queries = [query for text in part["queries"] for query in json.loads(text)]
    assert row["rounds"].startswith(f"{part['rounds'].mean():.3f} [")
    assert sum(row[f"ended in round {i}"] for i in range(1, part["rounds"].max() + 1)) == row["n"] == len(part)
    assert row["passed both graders"].startswith(f"{(part['graded'] == True).mean():.3f} [")  # noqa: E712
    assert (row["searches"], row["fallbacks"]) == (len(queries), sum(query["fallback"] for query in queries))
    graded = rows(done, "at-rag", f"{SET}: grades")
    assert [r["graded"] for r in graded] == [
        sum(len(json.loads(text)) >= r["round"] for text in part["grades"]) for r in graded
    ]
    assert graded[0]["useful"] + graded[0]["not_useful"] + graded[0]["failed"] >= graded[0]["graded"] > 0


@of_every_experiment
def test_a_topic_hits_where_a_chunk_with_evidence_has_it(done):
    (row,) = rows(done, "at-rag", f"{SET}: rounds")
    names = done.settings.question_sets[SET].corpora
    opened = Corpora.open(done.tools.store.read, done.settings, names)
    layouts = dict(zip(names, opened.layouts, strict=True))
    topics = {name: read_topics(done.tools.store.read("topics/assigned", name), 2) for name in names}
    hits = []
    for answer in done.answers[done.answers["method"] == row["way"]].to_dict("records"):
        question, gold = done.questions[answer["question"]], set()
        for e in question.evidence:
            layout = layouts[e.corpus]
            for chunk in range(layout.count(2)):
                (document,), (start,), (end,) = layout.chunk_spans(np.array([chunk]), 2)
                if layout.documents[document] == e.doc and start < e.end and e.start < end:
                    gold.add(int(topics[e.corpus][chunk]))
        hits.append(json.loads(answer["queries"])[0]["topic"] in gold - {-1})
    assert row["of"] == len(hits) and row["topic hit rate"].startswith(f"{np.mean(hits):.3f} [")


def test_topics_by_chance_are_those_of_other_questions():
    gold = {"a": {1}, "b": {2}, "c": {1, 2}}
    asked = {"a": [1], "b": [1, 2], "c": [-1]}
    answers = pd.DataFrame(
        {
            "question": list(asked),
            "document": list(asked),
            "queries": [json.dumps([{"topic": t} for t in ts]) for ts in asked.values()],
        }
    )
    hits = loop.topic_hits(answers, gold)
    assert hits["first"].tolist() == [1, 0, 0] and hits["any"].tolist() == [1, 1, 0]
    assert hits["chance"].tolist() == [0.5, 0, 1]


def test_marks_of_a_judge_that_could_not_be_read_lower_the_coverage_only():
    marks = {"correctness": 4.0, "completeness": 6.0, "relevance": 8.0, "judge": 6.0}
    texts = [json.dumps(marks), json.dumps({"failures": {"judge": "no marks"}}), None]
    (row,) = loop.judge_rows(pd.DataFrame({"method": "w", "document": list("abc"), "judgement": texts}), 0)
    assert row["judge"] == "6.000 [–]" and (row["marked"], row["of"]) == (1, 2)
    assert loop.judge_rows(pd.DataFrame({"method": ["w"], "document": ["a"], "judgement": [None]}), 0) == []
    no_topic = pd.DataFrame({"question": ["a"], "document": ["a"], "queries": [json.dumps([{"topic": None}])]})
    assert loop.topic_hits(no_topic, {}).empty and loop._topic_claim("s", "w", loop.topic_hits(no_topic, {}), 0) == []


def cell_of(way, exact, judged=None):
    """A way's marks: right or wrong of each question, and the judge's marks where there are some."""
    marks = pd.DataFrame({"question": [str(i) for i in range(len(exact))], "cell": way, "exact match": exact})
    marks["document"] = marks["question"]
    given = np.full(len(exact), np.nan) if judged is None else np.array(judged, float)
    return marks.assign(answered=True, judge=given, **{"asked judge": judged is not None})


@of_every_experiment
def test_every_loop_is_compared_with_what_is_no_loop(done):
    lab = lab_of(done, None)
    cells = {"loop": [1.0] * 20, "other loop": [1.0] * 20, "one-step": [0.0] * 20}
    marks = {way: cell_of(way, exact) for way, exact in cells.items()}
    for loop_ in ("loop", "other loop"):
        claim = loop._better_claim(lab, "s", marks, loop_, ["one-step"], "exact match")
        assert claim.verdict == "seen" and "loop" not in claim.because.split(f"against {loop_}: ")[1]
    assert loop._better_claim(lab, "s", marks, "loop", [], "exact match").verdict == "not testable here"


def test_marks_of_the_judge_are_compared_where_every_way_has_one():
    nan = np.nan
    first, second = cell_of("a", [0.0] * 4, [3, 4, nan, nan]), cell_of("b", [0.0] * 4, [5, nan, 7, 8])
    # A missing answer is worth nothing; a mark that could not be read is left out.
    first.loc[3, "answered"] = False
    judged = loop.judged_cells({"a": first, "b": second})
    assert judged["a"][["question", "judge"]].to_numpy().tolist() == [["0", 3], ["3", 0]]
    assert judged["b"][["question", "judge"]].to_numpy().tolist() == [["0", 5], ["3", 8]]
    assert loop.judged_cells({"a": cell_of("a", [0.0]), "b": cell_of("b", [1.0])}) == {}


# Means


def test_work_of_which_requests_were_not_answered_is_not_kept():
    tools = SimpleNamespace(llm=SimpleNamespace(tally=Tally(unanswered=2)))
    with all_answered(tools, "cell"):
        tools.llm.tally = Tally(unanswered=2, failures=5)
    with pytest.raises(MogError, match="cell: .*got none to 3: .*run again"), all_answered(tools, "cell"):
        tools.llm.tally = Tally(unanswered=5)


def test_a_reader_encodes_a_text_once_until_there_are_too_many():
    asked = []

    def encode(texts):
        asked.extend(texts)
        return np.array([[len(text), 1.0] for text in texts])

    remembered = remembering(encode, most=3)
    for texts in (["a", "bb", "a"], ["bb", "ccc"], ["dddd", "a"]):
        assert np.array_equal(remembered(texts), [[len(text), 1.0] for text in texts])
    # The fourth text is one too many: all but those of its call are forgotten.
    assert asked == ["a", "bb", "ccc", "dddd", "a"]
