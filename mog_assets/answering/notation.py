"""Combinations by name: `RETRIEVAL → WAY`, e.g. `mogg+topics → briefcontext`; `->` is as good as the arrow."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mog_assets.answering.answerers import METHODS
from mog_assets.config import Settings
from mog_assets.errors import ConfigError
from mog_assets.retrieval.methods import Method, parse

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
