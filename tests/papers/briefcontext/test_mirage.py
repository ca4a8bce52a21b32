"""MIRAGE's scorer: a test for each of its rules, their order, and the figures that come of it."""

import json
import math

import pandas as pd
import pytest
from shared import called

from mog_assets.answer import replies
from mog_assets.evaluate.answers import answer_board, mark, score_answers
from mog_assets.papers.briefcontext.letters import choice
from mog_assets.papers.briefcontext.mirage import read_outputs, score
from mog_assets.questions.sets import Question
from mog_assets.resources.errors import MogError


@pytest.mark.parametrize(
    ("output", "letter"),
    [
        # What follows the last mark counts, stripped; all of it where there is none.
        ('{"answer_choice": "B"}', "B"),
        ('"answer_choice": "C", then "answer_choice": "D"', "D"),
        ('B "answer_choice": " C ', "C"),
        ("  D \n", "D"),
        # Each rule, from the first on.
        ("C", "C"),
        ("C or so", "C"),
        ("B and more", "B"),
        ("D/A", "D"),
        ("B, since", "B"),
        ("Option D it is", "D"),
        ("The answer: B", "B"),
        ("the answer:\n\n D", "D"),
        ("C. aldosterone", "C"),
        ('D"}', "D"),
        ("B: insulin", "B"),
    ],
)
def test_each_rule_reads_its_letter(output, letter):
    assert choice(output) == letter


@pytest.mark.parametrize(
    ("output", "letter"),
    [
        ("B or option C", "B"),
        ("B, or option C", "B"),
        # A later place in the text, an earlier rule.
        ("D. I mean: B", "B"),
        ('B" as in: C', "C"),
        ("C: D", "D"),
        # The first occurrence of one rule.
        ("option B, not option C", "B"),
    ],
)
def test_an_earlier_rule_goes_before_an_earlier_place(output, letter):
    assert choice(output) == letter


@pytest.mark.parametrize(
    "output", ["no idea", "b", "option b", "E", "B) insulin", "(B)", "Because", "   ", 'x "answer_choice": "']
)
def test_what_names_no_letter_counts_as_a(output):
    assert choice(output) == "A"


def test_an_empty_output_is_wrong_even_where_a_is_right():
    assert choice("") is None and choice(None) is None
    (found, _) = score({"s/1": "", "s/2": None, "s/3": "no idea"}, {"s/1": "A", "s/2": "A", "s/3": "A"})
    assert (found.n, found.accuracy) == (3, pytest.approx(1 / 3))


def test_the_average_is_the_unweighted_mean_over_sets():
    answers = {**{f"a/{i}": "B" for i in range(4)}, "b/0": "C"}
    outputs = {"a/0": "B", "a/1": "C", "a/2": "D", "a/3": "", "b/0": "C"}
    first, second, average = score(outputs, answers)
    assert (first.set, first.n, first.accuracy) == ("a", 4, 0.25)
    assert first.se == pytest.approx(math.sqrt(0.25 * 0.75 / 4))
    assert (second.set, second.n, second.accuracy, second.se) == ("b", 1, 1, 0)
    assert (average.set, average.n, average.accuracy) == ("average", 5, 0.625)
    assert average.se == pytest.approx(first.se / 2)


QUESTIONS = [
    {"id": "medqa/0", "question": "?", "split": "test", "options": {"A": "x", "B": "y"}, "answer": "B"},
    {"id": "mmlu/0", "question": "?", "split": "test", "options": {"A": "x", "B": "y"}, "answer": "A"},
]


def written(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_recorded_outputs_are_scored_from_the_command_line(tmp_path):
    questions = written(tmp_path / "questions.jsonl", QUESTIONS)
    outputs = written(tmp_path / "p.jsonl", [{"id": "medqa/0", "output": "B"}, {"id": "mmlu/0", "output": None}])
    arguments = ["score-mirage", str(outputs), "--questions", str(questions)]
    result = called(*arguments, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == [
        {"set": "medqa", "n": 1, "accuracy": 1.0, "se": 0.0},
        {"set": "mmlu", "n": 1, "accuracy": 0.0, "se": 0.0},
        {"set": "average", "n": 2, "accuracy": 0.5, "se": 0.0},
    ]
    shown = called(*arguments)
    assert "average" in shown.stdout and "0.5000" in shown.stdout


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"p.jsonl:1: expected .* malformed JSON"),
        ('{"id": "medqa/0"}', r"p.jsonl:1: expected .*output"),
        ('{"id": "medqa/0", "output": 3}', "a text or null"),
        ('{"id": "other/0", "output": "A"}', "expected that of a question with a known answer, got 'other/0'"),
        ('{"id": "medqa/0", "output": "A"}\n{"id": "medqa/0", "output": "B"}', "p.jsonl:2: .* twice"),
        ("", "expected at least one line"),
    ],
)
def test_a_line_that_cannot_be_scored_names_its_place(tmp_path, line, message):
    (tmp_path / "p.jsonl").write_text(line, encoding="utf-8")
    with pytest.raises(MogError, match=message):
        read_outputs(tmp_path / "p.jsonl", {q["id"]: q["answer"] for q in QUESTIONS})


# The measure


def rows_of(answers, method="cot"):
    """Answers by (question, answer or None, raw output if it is another) as the asset holds them."""
    base = {"question_set": "s", "method": method, "reader": "r", "rounds": 1, "calls": 1, "tokens_in": 5}
    base |= {"tokens_out": 1, "token_unit": "words", "cost": 0.0}
    return pd.DataFrame(
        [
            {**base, "question": q, "answer": a, "failure": "" if a is not None else "no verdict"}
            | {"raw": raw[0] if raw else a or ""}
            for q, a, *raw in answers
        ]
    )


def choices(count, answer="B", letters="ABCD"):
    options = {letter: f"text {letter}" for letter in letters}
    return [Question(str(i), "?", "choice", "test", answer=answer, options=options) for i in range(count)]


# What a model put out, and the letter that strict parsing and MIRAGE read in it where B is right.
OUTPUTS = [
    ('{"answer_choice": "B"}', "B", "B"),
    ('{"answer_choice":"B"}', "B", "A"),
    ("(B) insulin", "B", "A"),
    ("I am sure: B because of its half-life", None, "B"),
    ("C or B", None, "C"),
    ("no idea", None, "A"),
    ("", None, None),
]


@pytest.mark.parametrize(("raw", "strict", "lenient"), OUTPUTS)
def test_strict_and_mirage_scorers_read_the_same_output_each_in_its_way(raw, strict, lenient):
    for right in "ABC":
        members = choices(1, right)
        try:
            said = replies.choice(raw, members[0].options)
        except replies.Unparsable:
            said = None
        assert said == strict
        (row,) = mark(rows_of([("0", said, raw)]), {"s": members}).to_dict("records")
        assert row["exact match"] == (strict == right)
        assert row["mirage"] == (lenient == right)
        assert row["answered"] == (strict is not None)


def test_mirage_counts_failures_as_the_benchmark_does_beside_a_strict_score():
    questions = {"s": choices(len(OUTPUTS), "A")}
    marks = mark(rows_of([(str(i), said, raw) for i, (raw, said, _) in enumerate(OUTPUTS)]), questions)
    scores = score_answers(marks, 0).set_index("measure")
    assert scores.loc["exact match", "value"] == 0 and scores.loc["mirage", "value"] == pytest.approx(3 / 7)
    assert scores.loc["exact match", "coverage"] == pytest.approx(3 / 7)
    (row,) = answer_board(scores.reset_index(), "s")
    assert row["mirage"].startswith("0.429 [") and row["answered"] == "43%"


@pytest.mark.parametrize(
    "other",
    [
        Question("9", "?", "open", "test", answer="x"),
        Question("9", "?", "choice", "test", answer="E", options=dict.fromkeys("ABCDE", "x")),
        Question("9", "?", "choice", "test", answer="yes", options={"yes": "yes", "no": "no"}),
    ],
)
def test_mirage_is_not_scored_where_a_question_has_other_options(other):
    questions = {"s": [*choices(1), other], "t": choices(1)}
    answers = rows_of([("0", "B"), ("9", other.answer)])
    elsewhere = rows_of([("0", "B")]).assign(question_set="t")
    scores = score_answers(mark(pd.concat([answers, elsewhere]), questions), 0)
    assert set(scores[scores["measure"] == "mirage"]["question_set"]) == {"t"}
    (row,) = answer_board(scores, "s")
    assert "mirage" not in row
    # A question that is not answered at all does not count.
    alone = score_answers(mark(rows_of([("0", "B")]), questions), 0)
    assert "mirage" in set(alone["measure"])
