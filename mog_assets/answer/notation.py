"""Answering methods by name: `RETRIEVAL → WAY`, e.g. `fixed-2 → one-step`; `->` is the same as the arrow."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mog_assets.answer.answerers import WAYS
from mog_assets.build.demand import Demand
from mog_assets.config import Settings
from mog_assets.registry import DEMANDS
from mog_assets.resources.errors import ConfigError
from mog_assets.search.methods import AUTO, Method, check_trained, needs, parse
from mog_assets.search.methods import controls as method_controls

ARROW = " → "


@dataclass(frozen=True)
class Combination:
    """An answering method with its retrieval.

    Attributes:
        name: Canonical name, with both parts unless there is no retrieval.
        way: One of `answerers.WAYS`.
        retrieval: None if nothing is retrieved.
    """

    name: str
    way: str
    retrieval: Method | None


def combination(text: str, settings: Settings) -> Combination:
    """Return an answering method by any of its names; without a retrieval it uses the chosen ranking, `auto`."""
    first, *rest = (part.strip() for part in re.split(r"→|->", text))
    way, retrieval = (rest[0], first) if len(rest) == 1 else (first, None)
    if len(rest) > 1 or way not in WAYS:
        raise ConfigError(
            f"answering method: expected one of {', '.join(WAYS)}, alone or after a retrieval and an arrow "
            f"(fixed-2{ARROW}one-step), got {text!r}"
        )
    if not WAYS[way].retrieves:
        if retrieval is not None:
            raise ConfigError(f"answering method: expected `{way}` without a retrieval, got {text!r}")
        return Combination(way, way, None)
    method = parse(AUTO if retrieval is None else retrieval, settings)
    if method.evaluation_only:
        raise ConfigError(f"answering method: expected a retrieval that searches, without gold evidence, got {text!r}")
    return Combination(f"{method.name}{ARROW}{way}", way, method)


def combinations(settings: Settings) -> list[Combination]:
    """Return the configured answering methods, in order, each once; all with `auto` if none is configured.

    Raises:
        ConfigError: one is unknown, or needs a model that this project cannot train.
    """
    named = settings.answering.methods
    hows = [combination(text, settings) for text in (WAYS if named is None else named)]
    for how in hows:
        check_combination("answering.methods", how, settings)
    return list({how.name: how for how in hows}.values())


def check_combination(key: str, how: Combination, settings: Settings) -> None:
    """Reject a method that has to be trained if the project cannot train it; see `methods.check_trained`."""
    if how.retrieval is not None and how.retrieval.trained:
        check_trained(f"{key}: {how.name}", how.retrieval, settings)


def controls(settings: Settings) -> list[Combination]:
    """Return answers from random and gold passages, as lower and upper reference; none without answering methods."""
    if not combinations(settings):
        return []
    return [Combination(f"{name}{ARROW}one-step", "one-step", parse(name, settings)) for name in method_controls()]


def is_control(name: str) -> bool:
    """Return whether a canonical name is that of one of `controls`."""
    return name.split(ARROW)[0] in method_controls()


def _demand(settings: Settings) -> Demand:
    methods = [how.retrieval for how in combinations(settings) if how.retrieval is not None]
    optional = [method for method in methods if method.kind != AUTO and not method.evaluation_only]
    # Without a word of the settings, ways are there for whoever asks, and none is measured.
    named = methods if settings.answering.methods else []
    return Demand(methods=needs(named, settings), optional=needs(optional, settings))


DEMANDS.register("answering", _demand)
