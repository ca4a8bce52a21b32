"""Limits of methods: each question gets passages of its group; see `methods.LIMITS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mog_assets.build.demand import Needs
from mog_assets.search.methods import LIMITS, Method
from mog_assets.search.passages import Passages
from mog_assets.search.retrieval import Retrieval


@dataclass(frozen=True, eq=False)
class Groups:
    """Limits each question to the chunks of its group.

    Attributes:
        questions: Group of every question, shape (questions,).
        chunks: Given a level, the group of every chunk, per corpus; no question is of a group below 0.
    """

    questions: np.ndarray
    chunks: Callable[[int], list[np.ndarray]]

    @property
    def none(self) -> np.ndarray:
        """Questions that are of no group, bool of shape (questions,)."""
        return np.asarray(self.questions < 0)


@dataclass(frozen=True)
class Limit:
    """Limits each question to the chunks of its group, for methods whose name ends with a plus sign and its own.

    Questions that are of no group, or for which too few passages are found in it, get passages of all groups.

    Attributes:
        group: What a group is called; results tell the group of a question under this name.
        groups: The groups, given the questions.
        describe: The group of each question, given likewise: JSON values, with the number under the name `group`, and
            a `label`.
        needs: The assets that it reads.
    """

    group: str
    groups: Callable[[Retrieval], Groups]
    describe: Callable[[Retrieval], list[dict[str, Any]]]
    needs: Needs

    def limited(self, retrieval: Retrieval, method: Method, k: int, ranked: Passages) -> Passages:
        """Return passages of each question's group, or those of all groups where it falls back to these.

        Args:
            retrieval: The questions.
            method: With this limit.
            k: See `Retrieval.rank`.
            ranked: Passages of all groups.
        """
        of_group, dropped = _of_group(retrieval, method), fell_back(retrieval, method, k)
        return of_group.at(~dropped[of_group.question]).joined(ranked.at(dropped[ranked.question]))


def groups_of(retrieval: Retrieval, limit: str) -> Groups:
    """Return the groups of a limit."""
    if limit not in retrieval.limited:
        retrieval.limited[limit] = LIMITS[limit].groups(retrieval)
    groups: Groups = retrieval.limited[limit]
    return groups


def fell_back(retrieval: Retrieval, method: Method, k: int) -> np.ndarray:
    """Return questions for which a method with a limit gives passages of all groups, bool of shape (questions,).

    They are of no group, or fewer than k passages are of theirs.
    """
    of_group, count = _of_group(retrieval, method), np.zeros(len(retrieval.queries), np.int64)
    np.maximum.at(count, of_group.question, of_group.rank + 1)
    return np.asarray(groups_of(retrieval, method.limit).none | (count < k))


def _of_group(retrieval: Retrieval, method: Method) -> Passages:
    """Return passages of each question's group alone."""
    if method not in retrieval.limited:
        retrieval.limited[method] = method.of.rank(retrieval, method, groups_of(retrieval, method.limit))
    passages: Passages = retrieval.limited[method]
    return passages


def grouped(retrieval: Retrieval, method: Method, k: int) -> list[dict[str, Any]]:
    """Tell the group of every question, and whether its passages are of all groups; nothing without a limit."""
    if not method.limit:
        return [{} for _ in retrieval.queries]
    described = zip(LIMITS[method.limit].describe(retrieval), fell_back(retrieval, method, k).tolist(), strict=True)
    return [{**group, "fallback": dropped} for group, dropped in described]


def details(retrieval: Retrieval, method: Method, k: int) -> list[dict[str, Any]]:
    """Return what `serve.results.SearchResult.details` tells of the group of each question."""
    name, limit = LIMITS[method.limit].group, method.limit
    return [{name: {**row, f"all {limit}": row.pop("fallback")}} for row in grouped(retrieval, method, k)]
