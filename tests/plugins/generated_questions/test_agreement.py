"""Whether generated questions rank the methods as real ones do: tau, its interval, and what is said of it."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

from mog_assets.evaluate.measures import measure_names
from mog_assets.evaluate.scores import score
from mog_assets.plugins.generated_questions.agreement import COLUMNS, agreement, compare, plot, sentence, taus
from mog_assets.search.methods import unplaced

# That an oracle is no method is said by papers.
pytestmark = pytest.mark.whole

K = 2
METHODS = [f"fixed-{i}" for i in range(1, 8)]
KINDS = {name: ("bm25", "fixed") for name in METHODS} | {
    "gold": ("", "gold"),
    "random": ("", "random"),
}
# It sees the gold evidence, where the papers are.
ORACLE = {name: 0.99 for name in unplaced() if name == "oracle-paper"}
KINDS |= {name: ("bm25", name) for name in ORACLE}
ORIGINS = {"real": "given", "made": "generated", "words": "generated"}
CORPORA = dict.fromkeys(ORIGINS, ["c"])
RISING = dict(zip(METHODS, np.linspace(0.3, 0.7, len(METHODS)), strict=True))


def rows(question_set, levels, evidence="spans", documents=20, each=2, noise=0.05, split="test"):
    """Questions of which each method finds so much of the evidence, and controls with the extremes."""
    rng = np.random.default_rng(len(question_set))
    levels = {**levels, "gold": 1.0, "random": 0.0, **ORACLE}
    found = []
    for method, level in levels.items():
        values = np.clip(level + rng.normal(0, noise, documents * each), 0, 1)
        for n, value in enumerate(values):
            measures = dict.fromkeys(measure_names(K), value)
            if evidence == "documents":
                kept = ("nDCG@10", f"hit@{K}", "MRR", "Recall@10")
                measures = {name: value if name in kept else np.nan for name in measures}
            found.append(
                {
                    "question_set": question_set,
                    "split": split,
                    "evidence": evidence,
                    "method": method,
                    "question": f"q{n}",
                    "document": f"c/d{n % documents}",
                    **measures,
                    "answered": True,
                }
            )
    return pd.DataFrame(found)


def sentences(table):
    return [sentence(row) for row in table.to_dict("records")]


def compared(*parts, origins=ORIGINS, corpora=CORPORA):
    return agreement(pd.concat(parts, ignore_index=True), KINDS, origins, corpora, 0)


def test_tau_of_resamples_is_that_of_scipy_with_ties_and_without():
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 4, (300, 6)).astype(float), rng.random((300, 6))
    first[0] = 1.0
    expected = [kendalltau(a, b).statistic for a, b in zip(first, second, strict=True)]
    assert np.isnan(expected[0])
    assert taus(first, second) == pytest.approx(np.nan_to_num(expected))
    # What differs by rounding is equal.
    assert taus(first + 1e-13 * rng.random(first.shape), second) == pytest.approx(np.nan_to_num(expected))


def test_sets_that_rank_alike_have_a_high_tau_and_no_regret():
    (row,) = compared(rows("real", RISING), rows("made", RISING, documents=50)).to_dict("records")
    assert row["tau"] == 1.0 and row["tau_high"] == 1.0 and row["tau_low"] > 0.7
    assert row["chosen"] == row["best"] == METHODS[-1]
    assert (row["difference"], row["difference_high"]) == (0, 0) and row["share"] > 0.9
    # Controls and the oracle do not count.
    assert row["methods"] == len(METHODS)
    assert [row[key] for key in ("n", "documents", "made_n", "made_documents")] == [40, 20, 100, 50]
    assert (row["measure"], row["question_set"], row["made_question_set"]) == ("ER", "real", "made")


def test_sets_that_rank_the_other_way_round_have_a_tau_below_zero_and_a_regret():
    turned = dict(zip(METHODS, reversed(RISING.values()), strict=True))
    (row,) = compared(rows("real", RISING), rows("made", turned)).to_dict("records")
    assert row["tau"] == -1.0 and row["tau_high"] < -0.7
    assert (row["best"], row["chosen"]) == (METHODS[-1], METHODS[0])
    assert row["difference"] == pytest.approx(row["chosen_value"] - row["best_value"])
    assert row["difference_low"] <= row["difference"] <= row["difference_high"] < -0.3 and row["share"] == 0
    (told,) = sentences(pd.DataFrame([row]))
    assert told.startswith("Generated questions rank the 7 methods otherwise than real ones do (tau -1.00 [-1.00,")
    assert "`fixed-1`, has ER 0.2" in told and " below the best, `fixed-7` (95 % [0.4" in told


def test_an_interval_contains_tau_and_shrinks_with_more_documents():
    near = {name: 0.5 + 0.01 * i for i, name in enumerate(METHODS)}
    widths = []
    for documents in (6, 200):
        sets = (rows(name, near, documents=documents, noise=0.1) for name in ("real", "made"))
        (row,) = compared(*sets).to_dict("records")
        assert -1 <= row["tau_low"] <= row["tau"] <= row["tau_high"] <= 1
        widths.append(row["tau_high"] - row["tau_low"])
    assert widths[1] < widths[0]


def test_real_questions_with_relevant_documents_alone_are_compared_by_documents():
    (row,) = compared(rows("real", RISING, "documents"), rows("made", RISING)).to_dict("records")
    assert row["measure"] == "nDCG@10" and row["tau"] == 1.0
    assert "by relevant documents" in sentences(pd.DataFrame([row]))[0]


def test_every_real_board_is_compared_with_every_generated_one_over_its_corpora():
    parts = [rows("real", RISING), rows("real", RISING, split="old"), rows("made", RISING), rows("words", RISING)]
    found = compared(*parts)
    pairs = found[["question_set", "split", "made_question_set"]].to_numpy().tolist()
    assert pairs == [
        [name, split, made] for name, split in (("real", "test"), ("real", "old")) for made in ("made", "words")
    ]
    assert len(sentences(found)) == 4
    assert compared(*parts, corpora={**CORPORA, "real": ["d"]}).empty
    # Questions from use are of people.
    assert len(compared(*parts, origins={**ORIGINS, "real": "use"})) == 4


@pytest.mark.parametrize("parts", [[rows("real", RISING)], [rows("made", RISING), rows("words", RISING)]])
def test_without_a_pair_there_is_nothing_to_say(parts):
    found = compared(*parts)
    assert found.empty and list(found.columns) == list(COLUMNS) and sentences(found) == []


def test_one_document_on_a_side_has_no_interval_and_that_is_said():
    (row,) = compared(rows("real", RISING, documents=1), rows("made", RISING)).to_dict("records")
    assert row["tau"] == pytest.approx(1.0, abs=0.5)
    assert np.isnan([row["tau_low"], row["tau_high"], row["difference_low"], row["share"]]).all()
    (told,) = sentences(pd.DataFrame([row]))
    assert "cannot be told from questions about one document (tau" in told and "nan" not in told


def test_methods_that_are_all_equal_are_said_not_to_be_ranked():
    found = compared(rows("real", dict.fromkeys(METHODS, 0.5), noise=0), rows("made", RISING))
    assert np.isnan(found["tau"]).all()
    (told,) = sentences(found)
    assert "cannot be compared" in told and "have the same ER" in told and "nan" not in told


def test_an_interval_with_zero_in_it_says_that_nothing_is_known():
    (row,) = compared(rows("real", RISING), rows("made", RISING)).to_dict("records")
    (told,) = sentences(pd.DataFrame([{**row, "tau": 0.2, "tau_low": -0.3, "tau_high": 0.6}]))
    assert told.startswith("Whether generated questions rank the 7 methods as real ones do is not known (tau 0.20 [")


def test_points_are_the_means_of_both_sides(drawn):
    table = pd.concat([rows("real", RISING), rows("made", RISING, documents=30)], ignore_index=True)
    (row,) = compare(compared(table), score(table, K, 0, KINDS))
    assert (row.measure, row.side, row.other) == ("ER", ("real", "test"), ("made", "test"))
    found = row.methods
    assert list(found.index) == METHODS
    means = table.groupby(["question_set", "method"])["ER"].mean()
    assert found["value"].to_dict() == pytest.approx(means["real"][METHODS].to_dict())
    assert found["other"].to_dict() == pytest.approx(means["made"][METHODS].to_dict())
    assert ((found["low"] <= found["value"]) & (found["value"] <= found["high"])).all()
    assert plot(row).startswith(b"\x89PNG")
