"""The asset `runs`: the passages of every method for every test question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mog_assets.build.recipe import Work
from mog_assets.config import Settings
from mog_assets.evaluate.candidates_assets import stored_candidates, test_questions
from mog_assets.evaluate.runs import RUNS, ranked, read_runs, run_table, write_runs
from mog_assets.questions.sets import Question, load_questions
from mog_assets.registry import RUN_TABLES
from mog_assets.search.groups import fell_back, groups_of
from mog_assets.search.methods import AUTO, LIMITS, Method, named_methods, needs, parse, trained_methods
from mog_assets.search.retrieval import Retrieval


def methods_of(settings: Settings) -> list[Method]:
    """Return the methods that are compared, in order.

    The controls are always included, at the two ends: tables show methods with equal means in this order.
    """
    searching = [method for method in named_methods(settings) if not method.control]
    return [parse("gold", settings), *searching, parse("random", settings)]


def build_runs(work: Work) -> None:
    """Rank passages by every method for every test question."""
    settings, named = work.settings, methods_of(work.settings)
    methods = trained_methods(named, settings, work.input)
    if untrained := [method.name for method in named if method not in methods]:
        work.shown["not measured"] = f"Had too few questions to be trained on: {', '.join(untrained)}."
    sets = {name: questions for name, questions in scored_questions(work).items() if questions}
    made_of = [work.recipe.settings(work.tools), _versions(work, methods)]
    path, exists = work.file(RUNS, made_of)
    others = {name: work.file(f"{name}.parquet", made_of) for name in RUN_TABLES}
    if not (exists and all(exists for _, exists in others.values())):
        ranking = _Ranking(work, methods)
        with work.progress(len(sets) * len(methods), "methods ranked") as advance, work.writing(path) as temporary:
            write_runs((run for name in sets for run in ranking.runs(name, sets[name])), temporary, advance)
        for name, (other, _) in others.items():
            with work.writing(other) as temporary:
                RUN_TABLES[name].make(ranking.rows[name], settings).to_parquet(temporary)
        work.recomputed["rankings"] = len(methods) * sum(len(questions) for questions in sets.values())
        for limit, rows in ranking.fallbacks.items():
            work.show_table(limit, rows)
    passages = read_runs(path)
    work.counts |= {
        "passages": len(passages),
        **{f"{name}: questions": len(questions) for name, questions in sets.items()},
    }
    work.counts["methods"] = len(methods)
    work.show_table("sample", passages.head(8).to_dict("records"))


class _Ranking:
    """Ranks question sets, one after the other, and gathers what is known of their rankings.

    Attributes:
        rows: Of each of `RUN_TABLES`.
        fallbacks: By limit, how many questions of a set are of no group, or have too few passages of it, by method.
    """

    def __init__(self, work: Work, methods: Sequence[Method]) -> None:
        self._work, self._methods = work, methods
        self._ranks = orders_candidates(methods)
        self.rows: dict[str, list[Any]] = {name: [] for name in RUN_TABLES}
        self.fallbacks: dict[str, list[dict[str, object]]] = {}

    def runs(self, name: str, questions: Sequence[Question]) -> Iterator[pa.Table]:
        """Yield the run of each method for a question set."""
        work, settings = self._work, self._work.settings
        opened = Retrieval.open(work.tools, work.input, settings.question_sets[name].corpora)
        inputs = stored_candidates(work.input("candidates"), name, questions, settings) if self._ranks else None
        retrieval = opened.measuring(name, questions, inputs)
        for method in self._methods:
            yield run_table(name, questions, method.name, ranked(method, retrieval, settings.k), retrieval.corpora)
            for table, rows_of in self.rows.items():
                rows_of += RUN_TABLES[table].rows(method, questions, retrieval)
            if method.limit:
                dropped = int(np.count_nonzero(fell_back(retrieval, method, settings.k)))
                none = int(groups_of(retrieval, method.limit).none.sum())
                counts = {"questions": len(questions), f"without a {LIMITS[method.limit].group}": none}
                row = {"method": method.name, "question set": name, **counts}
                rows = self.fallbacks.setdefault(method.limit, [])
                rows.append({**row, f"passages of all {method.limit}": dropped})
                work.counts[f"{name}, {method.name}: fallbacks"] = dropped


def orders_candidates(methods: Sequence[Method]) -> bool:
    """Return whether any of these methods orders candidates, so that their table is needed."""
    return any(method.ranking or method.kind == AUTO for method in methods)


def _versions(work: Work, methods: Sequence[Method]) -> list[str]:
    needed, corpora = needs(methods, work.settings), work.settings.corpora
    keys = ["questions", *needed.common, *(["candidates"] if orders_candidates(methods) else [])]
    common = [work.input(key).manifest.version for key in keys]
    return common + [work.input(key, c).manifest.version for key in needed.per_corpus for c in corpora]


def scored_questions(work: Work) -> dict[str, list[Question]]:
    """Return the test questions that can measure a ranking, by question set."""
    stored = work.input("questions")
    return {
        name: test_questions(load_questions(stored.path(f"{name}.parquet")), question_set)
        for name, question_set in work.settings.question_sets.items()
        if question_set.test
    }
