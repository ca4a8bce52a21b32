"""Readers and ways of answering."""

import json
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from mog_assets.answering import parsing
from mog_assets.answering.answerers import WAYS, Means, RetrievedPassages, cot, one_step
from mog_assets.answering.extractive import Extractive
from mog_assets.answering.parsing import Unparsable
from mog_assets.answering.preflight import Confusion, bm25_scores, by_bm25, by_vectors, overlap
from mog_assets.answering.prompted import Prompted, prompts_fingerprint
from mog_assets.answering.roles import USEFULNESS, AnswerRequest, Judgement, Passage
from mog_assets.papers.at_rag.answerer import adaptive, at_rag
from mog_assets.papers.briefcontext.answerer import briefcontext
from mog_assets.questions.sets import Question
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EMBEDDED, EncoderSettings
from mog_assets.resources.errors import MogError

OPTIONS = {"A": "insulin", "B": "glucagon", "C": "cortisol", "D": "aldosterone"}
CHOICE = AnswerRequest("c", "Which hormone lowers blood glucose?", OPTIONS, "choice")
YES_NO = {"A": "yes", "B": "no", "C": "maybe"}
PASSAGES = [
    Passage(
        "med", "d1", "Hormones", "Insulin lowers blood glucose. It is made by the pancreas.", (("med", "d1", 0, 57),)
    ),
    Passage(
        "med", "d2", "Hormones", "Glucagon raises blood glucose. Cortisol does so too.", (("med", "d2", 5, 57),), 2
    ),
    Passage("med", "d3", "Kidneys", "Aldosterone makes the kidneys keep sodium. They filter blood.", ((0, 61),)),
]


@dataclass(frozen=True)
class Said:
    text: str
    model: str = "scripted"
    tokens_in: int = 10
    tokens_out: int = 2
    cost: float = 0.5
    seconds: float = 0.25
    finish_reason: str = "stop"


class Scripted:
    """Gives each role its next output; the last one again and again. An error among them is raised.

    What it is asked stands in `asked`, by role.
    """

    def __init__(self, **outputs):
        usual = {
            "answer": '{"answer_choice": "A"}',
            "reduce": '{"answer_choice": "B"}',
            "think": "a thought",
            "extract": "something relevant",
            "usefulness": '{"verdict": "useful"}',
            "support": '{"verdict": "supported"}',
            "rewrite": '{"query": "rewritten"}',
            "classify": '{"verdict": "single"}',
        }
        self.outputs = {role: list(given) for role, given in {**{k: [v] for k, v in usual.items()}, **outputs}.items()}
        self.asked = defaultdict(list)

    def __call__(self, messages, form=None):
        role = messages[0]["content"].partition(" ")[0].strip("[")
        outputs = self.outputs[role]
        output = outputs[min(len(self.asked[role]), len(outputs) - 1)]
        self.asked[role].append(messages[1]["content"])
        if isinstance(output, Exception):
            raise output
        return Said(output)


USELESS, UNSUPPORTED = '{"verdict": "not_useful"}', '{"verdict": "unsupported"}'


class Library:
    """Retrieval that always finds the same, whatever the topic, and remembers what it was asked."""

    def __init__(self, passages=PASSAGES, topic=3):
        self.passages, self.topic, self.asked = passages, topic, []

    def __call__(self, queries, k, limit, read=()):
        self.asked.append((list(queries), k, limit))
        group = {"topic": self.topic, "label": "hormones", "fallback": self.topic == -1} if limit else {}
        return [RetrievedPassages(self.passages[:k], group) for _ in queries]


def means(model, library=None, **more):
    return Means(Prompted(model, "scripted"), library or Library(), **more)


def run_at_rag(model, **options):
    return at_rag([CHOICE], means(model, options.pop("library", None)), **options)[0]


# AT-RAG, Algorithm 1


def test_answer_that_passes_both_graders_ends_the_loop():
    model, library = Scripted(), Library()
    row = run_at_rag(model, library=library)
    assert (row.answer, row.details.get("graded"), row.rounds, row.calls) == ("A", True, 1, 4)
    assert row.details.get("grades") == [{"usefulness": "useful", "support": "supported"}]
    assert row.queries == [{"query": CHOICE.question, "topic": 3, "label": "hormones", "fallback": False}]
    assert library.asked == [([CHOICE.question], 5, "topics")]
    assert not model.asked["rewrite"]
    assert (row.tokens_in, row.tokens_out, row.cost, row.seconds) == (40, 8, 2.0, 1.0)


def test_answer_that_is_not_useful_is_not_checked_for_support_but_sought_with_another_query():
    model, library = Scripted(usefulness=[USELESS, '{"verdict": "useful"}']), Library()
    row = run_at_rag(model, library=library)
    assert (row.details.get("graded"), row.rounds) == (True, 2)
    assert row.details.get("grades")[0] == {"usefulness": "not_useful", "support": None}
    assert len(model.asked["support"]) == 1
    assert [queries for queries, _, _ in library.asked] == [[CHOICE.question], ["rewritten"]]


def test_useful_answer_without_support_is_sought_again_with_all_thoughts():
    model = Scripted(
        support=[UNSUPPORTED, '{"verdict": "supported"}'],
        think=["first thought", "second thought"],
        answer=['{"answer_choice": "B"}', '{"answer_choice": "A"}'],
    )
    row = run_at_rag(model)
    assert (row.answer, row.details.get("graded"), row.rounds) == ("A", True, 2)
    assert row.details.get("grades")[0] == {"usefulness": "useful", "support": "unsupported"}
    assert "first thought" in model.asked["answer"][1] and "second thought" in model.asked["answer"][1]
    # The answer is always to the original question; only the thought follows the query.
    assert CHOICE.question in model.asked["answer"][1] and "rewritten" not in model.asked["answer"][1]
    assert "rewritten" in model.asked["think"][1]
    assert "B. glucagon" in model.asked["rewrite"][0]


def test_outlier_topic_is_counted_as_fallback():
    row = run_at_rag(Scripted(), library=Library(topic=-1))
    assert [(q["topic"], q["fallback"]) for q in row.queries] == [(-1, True)]
    assert row.answer == "A"


def test_last_answer_stands_ungraded_when_the_rounds_run_out():
    answers = [f'{{"answer_choice": "{letter}"}}' for letter in "ABCDB"]
    model = Scripted(answer=answers, support=[UNSUPPORTED])
    row = run_at_rag(model)
    assert (row.answer, row.details.get("graded"), row.rounds, row.failure) == ("B", False, 5, "")
    assert len(row.details.get("grades")) == len(row.details.get("thoughts")) == len(row.queries) == 5
    assert len(model.asked["rewrite"]) == 4


@pytest.mark.parametrize(
    "malformed",
    ["useful", "Yes!", '{"verdict": "pass"}', '{"verdict": "useful, very"}', '{"verdict": true}', "[]", "{", " "]
    + ['{"verdict": "useful"} {"verdict": "not_useful"}', '{"verdict": ["useful"]}', '{"grade": "useful"}'],
)
def test_malformed_verdict_is_a_counted_failure_and_never_a_pass(malformed):
    row = run_at_rag(Scripted(usefulness=[malformed]), rounds=2)
    assert row.details.get("graded") is False
    assert [grades["usefulness"] for grades in row.details.get("grades")] == ["failed", "failed"]
    assert [(f["role"], f["round"]) for f in row.failures] == [("grade usefulness", 1), ("grade usefulness", 2)]
    assert "expected" in row.failures[0]["reason"]
    row = run_at_rag(Scripted(support=[malformed.replace("useful", "supported")]), rounds=1)
    assert (row.details.get("graded"), row.details.get("grades")[0]["support"]) == (False, "failed")


def test_failed_thought_and_failed_rewriting_leave_what_was_there():
    down = MogError("llm: did not answer")
    model, library = Scripted(think=[down], rewrite=["no json"], support=[UNSUPPORTED]), Library()
    row = run_at_rag(model, library=library, rounds=2)
    assert (row.answer, row.details.get("thoughts")) == ("A", [])
    assert [queries for queries, _, _ in library.asked] == [[CHOICE.question]] * 2
    assert [f["role"] for f in row.failures] == ["think", "rewrite", "think"]
    assert row.calls == 9


def test_answer_that_cannot_be_had_ends_its_question_and_an_earlier_answer_does_not_stand_in():
    row = run_at_rag(Scripted(answer=['{"answer_choice": "B"}', "I cannot help with that."], support=[UNSUPPORTED]))
    assert (row.answer, row.details.get("graded"), row.rounds) == (None, None, 2)
    assert row.failure.startswith("answer: expected answer_choice, one of A, B, C, D")
    assert row.raw == "I cannot help with that."


def test_questions_leave_the_loop_one_by_one():
    model, library = Scripted(usefulness=['{"verdict": "useful"}', USELESS, '{"verdict": "useful"}']), Library()
    other = AnswerRequest("other", "Which hormone raises blood glucose?", OPTIONS, "choice")
    rows = at_rag([CHOICE, other], means(model, library))
    assert [(row.question, row.rounds) for row in rows] == [("c", 1), ("other", 2)]
    assert [len(queries) for queries, _, _ in library.asked] == [2, 1]


# BriefContext


def sixteen():
    return [Passage("med", f"d{i}", f"title {i}", f"text number {i}.") for i in range(16)]


def reversed_ranking(query, passages):
    return list(range(len(passages)))[::-1]


def same_ranking(query, passages):
    return list(range(len(passages)))


def test_preflight_figures_of_the_paper():
    counts = Confusion(tp=426, fp=423, fn=34, tn=235)
    assert round(counts.precision, 4) == 0.5018
    assert round(counts.recall, 4) == 0.9261
    assert round(counts.f1, 4) == 0.6509


def test_confusion_counts_questions_and_leaves_undefined_figures_open():
    counts = Confusion.of([True, True, False, False, True], [True, False, True, False, True])
    assert counts == Confusion(tp=2, fp=1, fn=1, tn=1)
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
    row = briefcontext([CHOICE], means(model, Library(sixteen()), rerank=same_ranking))[0]
    assert row.details.get("preflight") == {"iou": 1.0, "map_reduce": False}
    assert (row.answer, row.details.get("extractions"), row.calls) == ("A", None, 1)
    assert len(row.passages) == 16
    assert not model.asked["extract"]


@pytest.mark.parametrize(("partitions", "size"), [(4, 4), (2, 8), (3, None)])
def test_map_reduce_runs_over_contiguous_partitions_in_the_order_of_retrieval(partitions, size):
    extracts = [f"piece {i}" for i in range(partitions)]
    model = Scripted(extract=extracts)
    library = Library(sixteen())
    row = briefcontext([CHOICE], means(model, library, rerank=reversed_ranking), partitions=partitions)[0]
    assert library.asked == [([CHOICE.question], 16, "")]
    assert row.details.get("preflight") == {"iou": 0.0, "map_reduce": True}
    assert (row.answer, row.details.get("extractions"), row.calls) == ("B", extracts, partitions + 1)
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
    row = briefcontext([CHOICE], means(model, Library(sixteen()), rerank=reversed_ranking))[0]
    assert row.details.get("extractions") == ["first", "", "", "last"]
    assert "extraction 2 of 2" in model.asked["reduce"][0]
    assert "relevant information\n" not in model.asked["reduce"][0]


def test_reader_answers_from_none_where_all_partitions_are_empty():
    model = Scripted(extract=["no relevant information"])
    row = briefcontext([CHOICE], means(model, Library(sixteen()), rerank=reversed_ranking))[0]
    assert (row.answer, row.details.get("extractions"), row.failures) == ("B", [""] * 4, [])
    assert "Extracted information:\nnone\n" in model.asked["reduce"][0]


def test_extractions_that_fail_are_noted_and_cost_the_answer_only_where_all_do():
    down = MogError("llm: did not answer")
    row = briefcontext(
        [CHOICE], means(Scripted(extract=["first", down, "third", down]), Library(sixteen()), rerank=reversed_ranking)
    )[0]
    assert (row.answer, row.details.get("extractions")) == ("B", ["first", "third"])
    assert [f["role"] for f in row.failures] == ["extract", "extract"]
    model = Scripted(extract=[down])
    row = briefcontext([CHOICE], means(model, Library(sixteen()), rerank=reversed_ranking))[0]
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


def test_passages_are_ranked_and_read_by_the_words_of_their_language():
    texts = [
        "Der Garten wird im Herbst umgegraben, und die Beete werden mit Laub bedeckt.",
        "Man steckt die Zehen des Knoblauchs drei Zentimeter tief in die Erde.",
        "Kürbisse wachsen auf Haufen aus Kompost.",
    ]
    # Plurals, and parts of a compound.
    assert np.flatnonzero(bm25_scores("Kürbissen", texts)).tolist() == [2]
    assert np.flatnonzero(bm25_scores("Laubhaufen", texts)).tolist() == [0, 2]
    assert np.flatnonzero(bm25_scores("wird auf die", texts)).tolist() == []


# One step, chain of thought, adaptive


def test_chain_of_thought_retrieves_nothing_and_one_step_once():
    model, library = Scripted(), Library()
    assert cot([CHOICE], means(model, library))[0].passages == []
    assert not library.asked
    assert "Documents:\nnone\n" in model.asked["answer"][0]
    row = one_step([CHOICE], means(model, library), k=2)[0]
    assert library.asked == [([CHOICE.question], 2, "")]
    assert row.passages[1] == {
        "corpus": "med",
        "doc": "d2",
        "title": "Hormones",
        "text": "Glucagon raises blood glucose. Cortisol does so too.",
        "spans": [["med", "d2", 5, 57]],
        "level": 2,
    }
    assert (row.method, row.details.get("graded"), row.token_unit) == ("one-step", None, "tokens")


def test_classifier_picks_the_way_and_its_call_is_in_the_account():
    routes = ["none", "single", "iterative", "sometimes"]
    model, library = Scripted(classify=[f'{{"verdict": "{route}"}}' for route in routes]), Library()
    questions = [AnswerRequest(str(i), f"Question {i}?", OPTIONS, "choice") for i in range(4)]
    rows = adaptive(questions, means(model, library))
    assert [row.question for row in rows] == ["0", "1", "2", "3"]
    assert [row.details.get("route") for row in rows] == ["none", "single", "iterative", None]
    assert [row.calls for row in rows] == [2, 2, 5, 1]
    assert [len(row.passages) for row in rows] == [0, 3, 3, 0]
    assert {row.method for row in rows} == {"adaptive"}
    assert library.asked == [(["Question 1?"], 5, "topics"), (["Question 2?"], 5, "topics")]
    assert rows[3].answer is None
    assert rows[3].failure.startswith("classify: expected verdict, one of none, single, iterative")


def test_failure_of_one_question_stops_no_other():
    down = MogError("llm: scripted did not answer")
    model = Scripted(answer=['{"answer_choice": "A"}', down, '{"answer_choice": "C"}'])
    questions = [AnswerRequest(str(i), "Which?", OPTIONS, "choice") for i in range(3)]
    rows = one_step(questions, means(model))
    assert [row.answer for row in rows] == ["A", None, "C"]
    assert rows[1].failure == "answer: llm: scripted did not answer"
    assert (rows[1].calls, rows[1].tokens_in) == (1, 0)


def test_error_that_concerns_every_request_is_raised():
    class Failed(MogError):
        pass

    model = Scripted(answer=[Failed("one"), MogError("the budget is spent")])
    reader = Prompted(model, "scripted", failures=(Failed,))
    assert reader.answer(CHOICE, []).failure == "one"
    with pytest.raises(MogError, match="budget"):
        one_step([CHOICE], Means(reader, Library()))


@pytest.mark.parametrize("method", list(WAYS))
def test_calls_side_by_side_give_the_same_rows(method):
    def each(work, items):
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(work, items))

    questions = [AnswerRequest(str(i), f"Question {i}?", OPTIONS, "choice") for i in range(6)]
    outputs = {"support": [UNSUPPORTED], "classify": ['{"verdict": "iterative"}']}
    one, other = (WAYS[method].answer(questions, means(Scripted(**outputs), **more)) for more in ({}, {"each": each}))
    assert one == other
    assert [row.question for row in one] == [q.id for q in questions]
    assert all(row.answer for row in one)


@pytest.mark.parametrize("method", list(WAYS))
def test_rows_survive_json(method):
    rows = WAYS[method].answer([CHOICE], means(Scripted(support=[UNSUPPORTED, "no json"])))
    assert all(json.loads(json.dumps(row.to_json())) == row.to_json() for row in rows)
    assert rows[0].reader == f"scripted@prompts-{prompts_fingerprint()}"


@pytest.mark.parametrize("method", list(WAYS))
def test_no_question_is_no_work(method):
    assert WAYS[method].answer([], means(None)) == []


# Parsing


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ('{"step_by_step_thinking": "x", "answer_choice": "B"}', "B"),
        ('```json\n{"answer_choice": "b"}\n```', "B"),
        ('I think {so}. {"answer_choice": "B"} Yes: {"answer_choice": "B"}', "B"),
        ('{"step_by_step_thinking": "long", "answer_choice": "B"', "B"),
        ('{"step_by_step_thinking": "an unescaped " quote", "answer_choice": "B"}', "B"),
        ('{"answer_choice": "B. glucagon"}', "B"),
        ('{"answer_choice": "(B)"}', "B"),
        ('{"answer_choice": "Glucagon"}', "B"),
        ("Answer: B", "B"),
        ("**B**", "B"),
        ('<think>{"answer_choice": "A"}</think>{"answer_choice": "B"}', "B"),
    ],
)
def test_choice_is_read_through_what_stands_around_it(text, letter):
    assert parsing.choice(text, OPTIONS) == letter


@pytest.mark.parametrize(
    "text",
    ["", "I cannot answer that.", '{"answer_choice": "E"}', '{"answer_choice": null}', '{"answer_choice": ["A"]}']
    + ['{"answer_choice": "A"} No: {"answer_choice": "B"}', '{"step_by_step_thinking": "long", "answer_choice": "B']
    + ["A. insulin\nB. glucagon", "B: it is not A", '{"answer_choice": "B. glucagon or C"}']
    + ["A fever is likely", '{"answer_choice": "A or B"}', '{"step_by_step_thinking": "A', "{" * 5000, "A" * 10**7]
    + ['{"a":' * 20000],
)
def test_what_names_no_option_is_no_choice(text):
    with pytest.raises(Unparsable, match="expected"):
        parsing.choice(text, OPTIONS)


def test_open_answers_extractions_and_queries_are_read():
    assert parsing.text_answer('{"answer": " insulin "}') == "insulin"
    assert parsing.text_answer("Insulin.") == "Insulin."
    assert parsing.text_answer('{"answer": "half \\ud800"}') == "half \N{REPLACEMENT CHARACTER}"
    assert parsing.extraction(' "No relevant information." ') == ""
    assert parsing.extraction("No relevant information on dogs; cats purr.") != ""
    assert parsing.query('{"query": "two\\nlines"}') == "two lines"
    for wrong in ('{"answer": "cut', '{"answer": ""}', '{"answer": 3}', "  "):
        with pytest.raises(Unparsable):
            parsing.text_answer(wrong)
    for wrong in ("plain words", '{"query": ""}', json.dumps({"query": "x" * 1001})):
        with pytest.raises(Unparsable):
            parsing.query(wrong)


def test_verdict_is_one_word_of_the_vocabulary():
    assert parsing.verdict('```json\n{"verdict": "Useful"}\n```', USEFULNESS) == "useful"
    assert parsing.verdict('{"verdict": "not_useful"} {"verdict": "not_useful"}', USEFULNESS) == "not_useful"


def test_marks_are_averaged_here_and_unparsable_ones_are_a_failure():
    marks = '{"correctness": 4, "completeness": 5.5, "relevance": 10, "overall": 1}'
    assert parsing.judgement(marks) == Judgement(4, 5.5, 10)
    assert parsing.judgement(marks).overall == 6.5
    wrong = ["{}", "8", '{"correctness": 11, "completeness": 1, "relevance": 1}']
    wrong += [
        f'{{"correctness": {x}, "completeness": 1, "relevance": 1}}' for x in ("true", "NaN", '"8"', "-1", "null")
    ]
    for text in wrong:
        reply = Prompted(Scripted(judge=[text]), "m").judge(CHOICE, "A", "A")
        assert reply.value is None
        assert reply.failure.startswith("expected")


def test_output_that_is_too_long_is_a_failure_and_is_not_kept():
    reply = Prompted(Scripted(answer=["x" * 10**7]), "m").answer(CHOICE, [])
    assert reply.failure.startswith("expected at most 100000 characters, got 10000000; the reply: 'xxx")
    assert len(reply.failure) < 300
    assert len(reply.raw) < 10_000


def test_kind_of_a_question_follows_from_its_options():
    assert AnswerRequest.of(Question("q", "Is it?", "pubmedqa", "test", options=YES_NO)).kind == "yesno"
    assert AnswerRequest.of(Question("q", "Is it?", "yesno", "train", answer="yes")).options["no"] == "no"
    assert AnswerRequest.of(Question("q", "Which?", "mmlu", "test", options=OPTIONS)).kind == "choice"
    assert AnswerRequest.of(Question("q", "Why?", "2hop", "test")) == AnswerRequest("q", "Why?")
    with pytest.raises(MogError, match="expected options"):
        AnswerRequest("q", "Which?", {}, "choice")


# The extractive reader


def by_words(texts):
    """Unit vectors over letters of words: close where words are shared."""
    vectors = np.zeros((len(texts), 512), np.float32)
    for row, text in zip(vectors, texts, strict=True):
        for word in text.lower().replace("?", " ").replace(".", " ").split():
            row[int.from_bytes(word.encode(), "big") % 509] += 1
        row[511] = 1e-3
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    encoder = Encoder(EncoderSettings(dtype="float32"), Path(tmp_path_factory.mktemp("vectors")))
    return Extractive(encoder.encode, EMBEDDED)


@pytest.fixture(params=["words", "embedded"])
def extractive(request):
    return Extractive(by_words, "words") if request.param == "words" else request.getfixturevalue("embedded")


@pytest.mark.parametrize(
    ("question", "letter"),
    [
        ("Which hormone lowers blood glucose?", "A"),
        ("Which hormone raises blood glucose?", "B"),
        ("Which hormone makes the kidneys keep sodium?", "D"),
    ],
)
def test_best_supported_option_is_chosen(extractive, question, letter):
    reply = extractive.answer(AnswerRequest("q", question, OPTIONS, "choice"), PASSAGES)
    assert (reply.value, reply.raw, reply.failure) == (letter, letter, "")


def test_option_closest_to_the_question_is_chosen_without_passages(extractive):
    asked = AnswerRequest("q", "Which hormone of the thyroid gland?", {"A": "liver", "B": "thyroid hormone"}, "choice")
    assert extractive.answer(asked, []).value == "B"


@pytest.mark.parametrize(
    ("question", "text", "word"),
    [
        ("Does aspirin reduce fever?", "Aspirin significantly reduced fever in children.", "yes"),
        ("Does aspirin reduce fever?", "Aspirin did not reduce fever. Fever was unchanged by aspirin.", "no"),
        ("Is aspirin as safe as ibuprofen?", "There was no difference between aspirin and ibuprofen.", "yes"),
        ("Does aspirin reduce fever?", "", "yes"),
    ],
)
def test_yes_no_follows_the_words_closest_to_the_question(extractive, question, text, word):
    asked = AnswerRequest("q", question, YES_NO, "yesno")
    assert asked.spelled(extractive.answer(asked, [Passage("c", "d", "", text)]).value) == word


def test_open_question_is_answered_with_the_best_sentence(extractive):
    asked = AnswerRequest("q", "What makes the kidneys keep sodium?")
    assert extractive.answer(asked, PASSAGES).value == "Aldosterone makes the kidneys keep sodium."
    nothing = extractive.answer(asked, [])
    assert (nothing.value, nothing.failure) == (None, "no sentence to answer from")


def test_extraction_keeps_relevant_sentences_in_order_or_says_that_there_are_none(extractive):
    asked = AnswerRequest("q", "Which hormone lowers blood glucose?")
    quartz = Passage("c", "d", "", "Quartz scratches steel.")
    kept = extractive.extract(asked, [PASSAGES[0], quartz, PASSAGES[1]]).value
    assert kept.startswith("Insulin lowers blood glucose.")
    assert kept.index("Insulin") < kept.index("Glucagon raises blood glucose.")
    assert "Quartz" not in kept
    empty = extractive.extract(asked, [quartz])
    assert (empty.value, empty.raw, empty.failure) == ("", "no relevant information", "")


def test_reduce_answers_from_extractions(extractive):
    assert extractive.reduce(CHOICE, ["Glucose rises.", "Insulin lowers blood glucose."]).value == "A"
    assert extractive.reduce(CHOICE, []).value == extractive.answer(CHOICE, []).value


def test_support_and_usefulness_have_verdicts_of_both_kinds(extractive):
    asked = AnswerRequest("q", "Which hormone lowers blood glucose?")
    assert extractive.grade_usefulness(asked, "The hormone insulin lowers blood glucose.").value == "useful"
    assert extractive.grade_usefulness(asked, "Quartz scratches steel.").value == "not_useful"
    assert extractive.grade_support(asked, PASSAGES, "Insulin lowers glucose").value == "supported"
    assert extractive.grade_support(asked, PASSAGES, "Thyroxine regulates metabolism").value == "unsupported"
    assert extractive.grade_support(asked, [], "Insulin").value == "unsupported"
    yes_no = AnswerRequest("q", "Does insulin lower blood glucose?", YES_NO, "yesno")
    assert extractive.grade_support(yes_no, PASSAGES, "A").value == "supported"
    assert (
        extractive.grade_support(yes_no, [Passage("c", "d", "", "Quartz scratches steel.")], "A").value == "unsupported"
    )
    assert extractive.grade_usefulness(yes_no, "A").value == "useful"


def test_rewriting_adds_the_commonest_new_terms(extractive):
    thoughts = ["Insulin is from the pancreas.", "The pancreas has islets."]
    query = extractive.rewrite(CHOICE, "hormones that lower glucose", "A", thoughts).value
    assert query == "hormones that lower glucose insulin pancreas islets"
    nothing = extractive.rewrite(CHOICE, "insulin", "A", [])
    assert (nothing.value, nothing.failure != "") == (None, True)


@pytest.mark.parametrize(
    ("question", "route"),
    [
        ("Who is it?", "none"),
        ("What lowers blood glucose?", "single"),
        ("Who was the first president of the association which published the journal that Ann edited?", "iterative"),
    ],
)
def test_hops_of_a_question_decide_its_route(extractive, question, route):
    assert extractive.classify(AnswerRequest("q", question)).value == route


def test_marks_rise_with_agreement(extractive):
    asked = AnswerRequest("q", "Which hormone lowers blood glucose?")
    right, wrong = (extractive.judge(asked, text, "insulin").value for text in ("insulin", "quartz"))
    assert right.correctness > 9.9 and right.completeness == 10
    assert right.overall > wrong.overall
    assert all(0 <= mark <= 10 for mark in (wrong.correctness, wrong.completeness, wrong.relevance))


def test_thought_is_the_closest_sentence_that_is_new(extractive):
    first = extractive.think(CHOICE, CHOICE.question, PASSAGES[:1]).value
    second = extractive.think(CHOICE, CHOICE.question, PASSAGES[:1], [first]).value
    assert [first, second] == ["Insulin lowers blood glucose.", "It is made by the pancreas."]
    assert extractive.think(CHOICE, CHOICE.question, PASSAGES[:1], [first, second]).failure


def test_every_method_answers_without_a_model_and_the_same_way_twice(embedded):
    questions = [
        CHOICE,
        AnswerRequest("y", "Does insulin lower blood glucose?", YES_NO, "yesno"),
        AnswerRequest("o", "What is insulin?"),
    ]
    for name, way in WAYS.items():
        first, second = (
            way.answer(questions, Means(embedded, Library(), lambda f, xs: [f(x) for x in xs])) for _ in "12"
        )
        for one, other in zip(first, second, strict=True):
            assert one.reader == f"extractive-4@{EMBEDDED}"
            assert (one.cost, one.token_unit) == (0, "words")
            assert {**one.to_json(), "seconds": 0} == {**other.to_json(), "seconds": 0}
        answers = {row.question: row.answer for row in first}
        assert answers["y"] == "A"
        assert (answers["c"] == "A" and answers["o"]) or name == "cot"


def test_words_read_and_written_are_counted():
    usage = (
        Extractive(by_words, "words")
        .answer(AnswerRequest("q", "one two three?"), [Passage("c", "d", "t", "Four five.")])
        .usage
    )
    assert (usage.calls, usage.tokens_in, usage.tokens_out) == (1, 5, 2)


def test_long_passages_cost_no_more_encoding_than_short_ones():
    encoded = []

    def encode(texts):
        encoded.append(len(texts))
        return by_words(texts)

    text = " ".join(f"Sentence number {i} speaks of nothing." for i in range(500)) + " Insulin lowers blood glucose."
    assert Extractive(encode, "words").answer(CHOICE, [Passage("c", "d", "", text)]).value == "A"
    assert max(encoded) <= 24


def test_dense_ranking_is_of_the_same_passages(embedded):
    rerank = by_vectors(embedded.encode)
    assert sorted(rerank("kidneys and salt", PASSAGES)) == [0, 1, 2]
    assert rerank("kidneys and salt", PASSAGES)[0] == 2
    assert rerank("anything", []) == []
