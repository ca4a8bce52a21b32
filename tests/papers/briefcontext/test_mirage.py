"""MIRAGE's scorer: a test for each of its rules, their order, and the figures that come of it."""

import json
import math

import pytest
from click.testing import CliRunner

from mog_assets import cli
from mog_assets.evaluation.mirage import choice
from mog_assets.papers.briefcontext.mirage import read_outputs, score
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
        ("I take option C here", "C"),
        ("Option D it is", "D"),
        ("The answer: B", "B"),
        ("The answer:B", "B"),
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
        ("C and option D", "C"),
        ("D/option B", "D"),
        ("B, or option C", "B"),
        # A later place in the text, an earlier rule.
        ("D. I mean: B", "B"),
        ("D. That is option C: B", "C"),
        ('B" as in: C', "C"),
        ("C: D", "D"),
        # The first occurrence of one rule.
        ("option B, not option C", "B"),
        ("first: C, second: D", "C"),
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
    result = CliRunner().invoke(cli.main, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == [
        {"set": "medqa", "n": 1, "accuracy": 1.0, "se": 0.0},
        {"set": "mmlu", "n": 1, "accuracy": 0.0, "se": 0.0},
        {"set": "average", "n": 2, "accuracy": 0.5, "se": 0.0},
    ]
    shown = CliRunner().invoke(cli.main, arguments)
    assert "average" in shown.stdout and "0.5000" in shown.stdout


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"p.jsonl:1: expected .* as JSON"),
        ('{"id": "medqa/0"}', r"p.jsonl:1: expected .*output"),
        ('{"id": "medqa/0", "output": 3}', "output: expected a text or null, got int"),
        ('{"id": "other/0", "output": "A"}', "expected a question with a known answer, got 'other/0'"),
        ('{"id": "medqa/0", "output": "A"}\n{"id": "medqa/0", "output": "B"}', "p.jsonl:2: .* twice"),
        ("", "expected at least one line"),
    ],
)
def test_a_line_that_cannot_be_scored_names_its_place(tmp_path, line, message):
    (tmp_path / "p.jsonl").write_text(line, encoding="utf-8")
    with pytest.raises(MogError, match=message):
        read_outputs(tmp_path / "p.jsonl", {q["id"]: q["answer"] for q in QUESTIONS})
