"""What `mog run` prints of the scores: the sentence on top follows the figures, and the rows are those that matter."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from mog_assets.cli import main
from mog_assets.evaluate.leaderboard import MOST_ROWS, leaderboards
from mog_assets.evaluate.measures import measure_names
from mog_assets.evaluate.scores import score
from mog_assets.resources.store import Store

K = 2
KINDS = {
    "fixed-1": ("bm25", "fixed"),
    "fixed-2": ("bm25", "fixed"),
    "dense-1": ("dense", "fixed"),
    "dense-2": ("dense", "fixed"),
    "hybrid:fixed-1": ("hybrid", "fixed"),
    "mog-paper": ("bm25", "mog-paper"),
    "dense:mog-paper": ("dense", "mog-paper"),
    "fused-paper-1": ("bm25", "fused-paper"),
    "fused-paper-2": ("bm25", "fused-paper"),
    "oracle-paper": ("bm25", "oracle-paper"),
    "hop-0": ("bm25", "hop"),
    "mogg-paper": ("bm25", "mogg-paper"),
    "fused": ("", "fused"),
    "mix": ("", "mix"),
    "gold": ("", "gold"),
    "random": ("", "random"),
}
LEVEL = {name: 0.5 for name in KINDS} | {"gold": 1.0, "random": 0.0, "oracle-paper": 0.95}


def board(levels, default="fused", questions=60, noise=0.05, methods=None):
    """The leaderboard of methods with these mean evidence recalls."""
    table = questions_of("s", levels, questions, noise, methods)
    (made,) = leaderboards(score(table, K, 0, KINDS), table, default, K, 0)
    return made


def questions_of(question_set, levels, questions=60, noise=0.05, methods=None):
    """Measures of methods with these mean evidence recalls, each question about a document of its own."""
    rng = np.random.default_rng(0)
    rows = []
    for method in methods or KINDS:
        recall = np.clip(levels.get(method, LEVEL[method]) + rng.normal(0, noise, questions), 0, 1)
        for n, value in enumerate(recall):
            rows.append(
                {
                    "question_set": question_set,
                    "split": "test",
                    "method": method,
                    "question": f"q{n}",
                    "document": f"d{n}",
                    "answered": True,
                    **dict.fromkeys(measure_names(K), value),
                }
            )
    return pd.DataFrame(rows)


def methods(made):
    return [row["method"] for row in made.rows]


def what(made, method):
    (row,) = (row for row in made.rows if row["method"] == method)
    return row["what it is"]


@pytest.mark.whole
def test_a_mix_that_beats_every_fixed_level_is_advised_with_its_lead_over_the_best_of_all_retrievers():
    made = board({"fixed-2": 0.55, "dense-1": 0.6, "mog-paper": 0.58, "dense:mog-paper": 0.75})
    assert made.advice.startswith("Use `dense:mog-paper`: ER 0.7")
    assert "above `dense-1`, the best fixed level of all retrievers (95 % [0.1" in made.advice
    assert made.advice.endswith("p = 0.001)." if "p = " in made.advice else "p < 0.001).")
    assert what(made, "dense:mog-paper").startswith("recommended")


@pytest.mark.whole
def test_a_lead_over_the_own_retrievers_levels_alone_is_no_lead():
    # Better than every level of bm25, by far, and no better than a level of the dense retriever.
    made = board({"fixed-2": 0.4, "fixed-1": 0.4, "mog-paper": 0.6, "dense-1": 0.6})
    assert "Use `mog-paper`" not in made.advice and "no method is significantly better than" in made.advice


@pytest.mark.whole
def test_a_fixed_level_that_beats_what_auto_stands_for_is_advised():
    made = board({"dense-1": 0.72})
    assert made.advice.startswith("Use `dense-1`: ER 0.7")
    assert " above `fused`, which `auto` stands for (95 % [0.1" in made.advice
    assert made.advice.endswith("; no method is significantly better than `dense-1`.")
    # Without a choice, or with this one, nothing else is left to be better than.
    for default in ("dense-1", None):
        made = board({"dense-1": 0.72}, default=default)
        assert made.advice.startswith("Use `dense-1` (ER 0.7")
        assert made.advice.endswith("significantly better than `dense-1`, the best fixed level of all retrievers.")


@pytest.mark.whole
def test_a_method_replaces_what_auto_stands_for_only_if_it_is_significantly_better_than_that():
    # `mix` is better than the best fixed level by far, and than `fused` by chance; then by far, too.
    made = board({"dense-1": 0.6, "fused": 0.701, "mix": 0.703})
    assert made.advice.startswith("Use `fused`, which `auto` stands for: ER 0.7") and methods(made)[0] == "fused"
    assert "above `dense-1`, the best fixed level of all retrievers (95 % [" in made.advice
    made = board({"dense-1": 0.6, "fused": 0.7, "mix": 0.8})
    assert made.advice.startswith("Use `mix`: ER 0.79") and methods(made)[0] == "mix"
    # Nothing is shown to be better than what stands for `auto`, nor this to be better than the level.
    made = board({"dense-1": 0.5, "fused": 0.52, "mix": 0.61}, noise=0.25, questions=20)
    assert made.advice.startswith("Use `fused`, which `auto` stands for (ER") and methods(made)[0] == "fused"


def test_the_share_of_the_gap_to_gold_that_a_method_closes_is_shown_where_it_is_above_the_best_level():
    made = board({"dense-1": 0.6, "mix": 0.8, "fused": 0.4}, noise=0.0001)
    closed = {row["method"]: row["gap closed"] for row in made.rows}
    assert closed["mix"] == "50%" and closed["fused"] == closed["dense-1"] == closed["gold"] == ""


@pytest.mark.whole
@pytest.mark.parametrize("levels", [{}, {"dense:mog-paper": 0.9}, {"oracle-paper": 0.2}])
def test_what_cannot_be_used_is_never_advised_and_rows_are_few(levels):
    made = board(levels)
    advised = made.advice.split("`")[1]
    assert advised not in ("oracle-paper", "gold", "random")
    assert len(made.rows) <= MOST_ROWS and "oracle-paper" not in methods(made)
    assert {"gold", "random", "mix", "fused", advised} <= set(methods(made))
    assert "`auto`" in what(made, "fused")
    shown = " ".join(row["what it is"] for row in made.rows)
    for part in ("bm25", "dense", "hybrid"):
        assert f"best fixed level of {part}" in shown
    assert "weighed for each question" in shown and "sentence graph" in shown
    assert methods(made)[0] == advised and methods(made)[-2:] == ["gold", "random"]
    values = [float(row["ER"].split()[0]) for row in made.rows[1:-2]]
    assert values == sorted(values, reverse=True)


def test_the_row_of_a_method_has_its_p_against_the_best_level_of_all_retrievers():
    made = board({"dense-1": 0.7, "fused": 0.3})
    rows = {row["method"]: row["p vs dense-1"] for row in made.rows}
    assert rows["dense-1"] == rows["gold"] == rows["random"] == ""
    assert rows["fused"] == "<0.001" or 0 < float(rows["fused"]) < 0.05


def test_one_method_alone_is_advised_without_a_comparison():
    made = board({}, questions=5, methods=["dense-1", "gold", "random"])
    assert made.advice == "Use `dense-1`: it is the only method measured."
    assert "p vs" not in " ".join(made.rows[0]) and made.shows == ""


@pytest.mark.whole
def test_scores_prints_the_advice_and_the_rows_that_matter_or_all(sample_project):
    def printed(*arguments):
        result = CliRunner().invoke(main, ["scores", *arguments, "--config", str(sample_project.config)])
        assert result.exit_code == 0, result.output
        return result.stdout

    few, every = printed(), printed("--all")
    said = json.loads(Store(sample_project.home).read("method").path("method.json").read_bytes())
    assert few.splitlines()[0] == f"`auto` is `{said['method']}`: {said['why']}."
    assert few.splitlines()[1].startswith("Use `") and few.splitlines()[:2] == every.splitlines()[:2]
    assert "best fixed level of" in few and "oracle-paper" not in few and "hop-3" not in few
    assert "`mog scores --all`" in few
    assert "oracle-paper" in every and "hop-3" in every


# Who made the questions, and how many there are


def asked_by(origin, **options):
    """The leaderboards of two sets, of which `s` was made by `origin`."""
    table = pd.concat([questions_of("s", **options), questions_of("t", **options)], ignore_index=True)
    return leaderboards(score(table, K, 0, KINDS), table, "fused", K, 0, {"s": origin, "t": "given"})


@pytest.mark.whole
def test_real_questions_come_first_and_generated_ones_are_said_to_be():
    first, second = asked_by("generated", levels={"mix": 0.8})
    assert first.title.startswith("t: 60 questions on 60 documents") and first.advice.startswith("Use `mix`: ER")
    assert second.title.startswith("s: 60 questions generated by a language model on 60 documents")
    assert second.advice.startswith("s, by generated questions: use `mix`: ER")


def test_few_questions_say_which_difference_they_could_show():
    for questions, found in ((29, True), (30, False)):
        table = questions_of("s", {"fixed-2": 0.6}, questions)
        scores = score(table, K, 0, KINDS)
        (made,) = leaderboards(scores, table, "fused", K, 0)
        assert bool(made.shows) == found
        if found:
            assert made.shows.startswith(
                "With 29 questions on 29 documents, a difference in ER from `fixed-2` shows if it is at least 0.0"
            )
            least = float(made.shows.split()[-1].rstrip("."))
            er = scores[(scores["measure"] == "ER") & (scores["method"] != "oracle-paper")]
            assert least == pytest.approx(er["detectable"].median(), abs=0.005)


def test_too_few_documents_are_said_to_show_nothing():
    made = board({"fixed-2": 0.6}, questions=3)
    assert made.shows == "3 questions on 3 documents are too few to show a difference in ER from `fixed-2`."
