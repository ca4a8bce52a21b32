"""Counts of the texts of every level, and the names of methods."""

import numpy as np
import pytest

from mog_assets.config import settings_model
from mog_assets.resources.errors import ConfigError
from mog_assets.search.depth import cut
from mog_assets.search.methods import RETRIEVERS, named_methods, parse
from mog_assets.search.passages import Passages
from mog_assets.text.terms import terms_of

SETTINGS = settings_model().model_validate({"corpora": {"c": {"path": "x"}}})
TRAINED = settings_model().model_validate(
    {"corpora": {"c": {"path": "x"}}, "question_sets": {"q": {"path": "q.csv", "corpora": ["c"], "train": ["train"]}}}
)


# Counts of levels


def test_words_that_say_nothing_leave_no_terms():
    assert terms_of(["the of and", "?!", "", "Growing tomatoes, growing"]) == [
        [],
        [],
        [],
        ["grow", "tomato", "grow"],
    ]


def test_runs_are_cut_where_no_measure_sees_further():
    def passages(lengths, documents):
        n = np.zeros(len(lengths), int)
        return Passages(n, np.arange(len(lengths)), np.array(documents), n, np.array(lengths), n + 1, n.astype(float))

    ten = list(range(10))
    # Eight passages fill the context, and the tenth document comes two passages later.
    assert len(cut(passages([1000] * 20, ten + [0] * 10), 2).end) == 10
    # The documents are soon seen, the context is not filled.
    assert len(cut(passages([500] * 20, ten + [0] * 10), 2).end) == 16
    assert len(cut(passages([8000] * 20, [0] * 20), 3).end) == 20
    assert len(cut(passages([8000] * 20, ten + ten), 15).end) == 15


# Methods


@pytest.mark.parts("paper", "bm25-mog-None-mog-None")
@pytest.mark.parametrize(
    ("name", "default", "canonical", "retriever", "kind", "level"),
    [
        ("mog-paper", "bm25", "mog-paper", "bm25", "mog-paper", None),
        ("fixed-3", "bm25", "fixed-3", "bm25", "fixed", 3),
        ("fused-paper-2", "bm25", "fused-paper-2", "bm25", "fused-paper", 2),
        (" hybrid:mog-paper ", "bm25", "hybrid:mog-paper", "hybrid", "mog-paper", None),
        ("bm25:mog-paper", "bm25", "mog-paper", "bm25", "mog-paper", None),
        ("dense:fixed-2", "bm25", "dense-2", "dense", "fixed", 2),
        ("dense-2", "dense", "fixed-2", "dense", "fixed", 2),
        (" gold", "bm25", "gold", None, "gold", None),
        ("mog ", "bm25", "mog", None, "mog", None),
        ("auto", "bm25", "auto", None, "auto", None),
    ],
)
def test_method_by_any_of_its_names(name, default, canonical, retriever, kind, level):
    settings = SETTINGS.model_copy(update={"retriever": default})
    method = parse(name, settings)
    assert (method.name, method.retriever, method.kind, method.level) == (canonical, retriever, kind, level)
    assert parse(canonical, settings) == method


@pytest.mark.whole
@pytest.mark.parametrize(
    "name",
    ["", "moggy", "fixed", "fixed-0", "fixed-6", "mog-2", "medrag-3", "tfidf:mog-paper", "dense", "dense-9"]
    + ["bm25:random", "random+topics", "gold-1"]
    # Rankings use all retrievers and levels, and no topics; only what ranks as in the paper has levels.
    + ["oracle", "fused-1", "hybrid:mog", "mog+topics", "mix-2", "dense:fused", "auto-1", "bm25:auto", "auto+topics"]
    + ["fused-paper", "fused-paper-6", "mog-paper-1"],
)
def test_unknown_method_is_refused_with_the_known_ones(name):
    with pytest.raises(ConfigError) as caught:
        parse(name, SETTINGS)
    assert {"auto", "fused", "mix", "fixed-1..5", "fused-paper-1..5"} <= set(str(caught.value)[24:].split(", "))
    assert str(caught.value).endswith(f"got {name!r}")


@pytest.mark.whole
@pytest.mark.parametrize("default", ["bm25", "dense", "hybrid"])
def test_methods_of_groups_are_canonical_and_distinct(default):
    settings = TRAINED.model_copy(update={"retriever": default, "methods": ["default", "papers", "fused"]})
    names = [method.name for method in named_methods(settings)]
    assert names[:4] == ["fused", "tuned", "mog", "mix"]
    # Levels under three retrievers, oracle-paper, five hops, both without and with a router, and three within topics.
    assert len(set(names)) == len(names) == 4 + 12 + 2 * 11 + 5 + 2 + 3
    assert [parse(name, settings).name for name in names] == names


@pytest.mark.whole
def test_without_methods_rankings_and_levels_are_compared():
    plain = {f"{retriever}:fixed-{level}" for retriever in RETRIEVERS for level in range(1, 6)}
    plain = {parse(name, SETTINGS).name for name in plain}
    assert {method.name for method in named_methods(SETTINGS)} == {"fused", *plain}
    assert {method.name for method in named_methods(TRAINED)} == {"fused", "tuned", "mog", "mix", *plain}


@pytest.mark.whole
def test_groups_leave_out_what_cannot_be_trained_and_names_do_not():
    group = named_methods(SETTINGS.model_copy(update={"methods": ["papers"]}))
    assert group and not any(method.trained for method in group)
    with pytest.raises(ConfigError, match="methods: 'mog-paper' needs training"):
        named_methods(SETTINGS.model_copy(update={"methods": ["mog-paper"]}))
