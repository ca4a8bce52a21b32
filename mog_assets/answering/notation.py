"""Combinations by name: `RETRIEVAL → WAY`, e.g. `mogg+topics → briefcontext`; `->` is as good as the arrow."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mog_assets.answering.answerers import METHODS
from mog_assets.config import Settings
from mog_assets.retrieval.methods import CONTROLS, Method, check_trained, parse
from resources.errors import ConfigError

ARROW = " → "
# What each of the papers retrieves with: MedRAG's level, and for AT-RAG within the question's topic.
_TOPICS = ("at-rag", "adaptive")


@dataclass(frozen=True)
class Combination:
    """A way of answering over a retrieval.

    Attributes:
        name: Canonical: both are named, unless the way retrieves nothing.
        way: Of `answerers.METHODS`.
        retrieval: None where nothing is retrieved.
    """

    name: str
    way: str
    retrieval: Method | None


def combination(text: str, settings: Settings) -> Combination:
    """A combination by any of its names; a way alone retrieves as its paper does.

    Raises:
        ConfigError: no such way, or no such retrieval.
    """
    first, *rest = (part.strip() for part in re.split(r"→|->", text))
    way, retrieval = (rest[0], first) if len(rest) == 1 else (first, None)
    if len(rest) > 1 or way not in METHODS:
        raise ConfigError(
            f"answering method: expected one of {', '.join(METHODS)}, alone or after a retrieval and an arrow "
            f"(mog{ARROW}one-step), got {text!r}"
        )
    if way == "cot":
        if retrieval is not None:
            raise ConfigError(f"answering method: expected `cot` alone, it retrieves nothing, got {text!r}")
        return Combination("cot", "cot", None)
    own = f"fixed-{min(2, settings.levels)}" + ("+topics" if way in _TOPICS else "")
    method = parse(own if retrieval is None else retrieval, settings)
    if method.evaluation_only:
        raise ConfigError(f"answering method: expected a retrieval that searches, without gold evidence, got {text!r}")
    return Combination(f"{method.name}{ARROW}{way}", way, method)


def combinations(settings: Settings) -> list[Combination]:
    """The ways that questions are answered in, in order, each once.

    Raises:
        ConfigError: one is none, or needs a router that this project cannot train.
    """
    found = [combination(text, settings) for text in settings.answering.methods]
    for how in found:
        check_combination("answering.methods", how, settings)
    return list({how.name: how for how in found}.values())


def check_combination(key: str, how: Combination, settings: Settings) -> None:
    """Refuse a way that retrieves by a router in a project that cannot train one; see `methods.check_trained`."""
    if how.retrieval is not None and how.retrieval.routed:
        check_trained(f"{key}: {how.name}", how.retrieval, settings)


def controls(settings: Settings) -> list[Combination]:
    """Answers from random and from gold passages, by which the ways are measured; none where there are no ways."""
    if not combinations(settings):
        return []
    return [Combination(f"{name}{ARROW}one-step", "one-step", parse(name, settings)) for name in CONTROLS]


def is_control(name: str) -> bool:
    """Whether a combination is one of `controls`, by its canonical name."""
    return name.split(ARROW)[0] in CONTROLS
