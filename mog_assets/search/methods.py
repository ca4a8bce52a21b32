"""Methods by name, and the passages each of them ranks.

A name is `[retriever:]kind[-number][+limit]`, e.g. `fused`, `fixed-2`, `hybrid:fixed-3`; without a retriever, the
configured one is used. Kinds are registered: rankings of pieces, fixed levels and controls in
`mog_assets.search.builtin_methods`, those of the papers in their rooms. So are limits. `dense-2` stands for
`dense:fixed-2`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from mog_assets import registry
from mog_assets.build.demand import Needs
from mog_assets.config import RetrieverName, Settings
from mog_assets.registry import Registry
from mog_assets.resources.errors import ConfigError
from mog_assets.search.passages import Passages

RETRIEVERS: tuple[RetrieverName, ...] = ("bm25", "dense", "hybrid")
_PATTERN = re.compile(
    r"(?:(?P<retriever>bm25|dense|hybrid):)?(?P<kind>[a-z0-9]+(?:-[a-z]+)*)(?:-(?P<number>\d{1,3}))?(?:\+(?P<limit>[a-z]+))?"
)
# The method that the asset `method` names.
AUTO = "auto"

Weights = Callable[[Any, "Method"], list[dict[str, float] | None]]


def _unweighted(retrieval: Any, method: Method) -> list[dict[str, float] | None]:
    return [None] * len(retrieval.queries)


def _unexplained(retrieval: Any, method: Method, passages: Passages) -> list[str]:
    return [""] * len(passages.question)


@dataclass(frozen=True)
class Kind:
    """A kind of methods, and what they have in common.

    Attributes:
        rank: Ranks passages for every question, given a `search.retrieval.Retrieval`, the method, and the
            `search.groups.Groups` that limit each question to some chunks, or None.
        needs: The assets that it reads.
        description: What it is, in a few words, for boards; kinds that share it are shown as one.
        look: Colour and marker of its line in plots, if it has one: colours that colour-blind readers can distinguish
            (Okabe and Ito 2008), one marker each for print.
        numbers: The numbers that a name ends with, given the settings; None if it has none.
        retrievers: Those that it can search with; none if it uses all, or does not search.
        trained: Whether it needs a model that is trained on questions.
        instead: A method to use where nothing can be trained.
        ranking: How it orders pieces, see `search.rankings.Ranking`: they are joined to passages as long as is asked
            for; None if it does not.
        gold: Whether it sees gold evidence or does not search: it cannot answer real questions.
        control: Whether its measured values are known in advance.
        reasons: Why each passage is there; see `search.retrieval.Retrieval.reasons`.
        joined: Whether neighbouring passages can be joined.
        weights: What weighs granularities or experts for each question, by name; of a ranking only for an explanation.
        nothing: Why it found no passage, given those weights; None if the retriever says that.
        family: What its methods are listed under where people choose one; empty for what all kinds are listed under.
        settings: Gives what it reads of the settings beside those of every search, as a JSON value; None if nothing.
    """

    rank: Callable[[Any, Method, Any], Passages]
    needs: Callable[[Method, Settings], Needs]
    description: str
    look: tuple[str, str] | None = None
    numbers: Callable[[Settings], range] | None = None
    retrievers: tuple[RetrieverName, ...] = ()
    trained: bool = False
    instead: str = "fused"
    ranking: Any = None
    gold: bool = False
    control: bool = False
    joined: bool = True
    reasons: Callable[[Any, Method, Passages], list[str]] = _unexplained
    weights: Weights = _unweighted
    nothing: Callable[[dict[str, float] | None], str | None] = lambda weights: None
    family: str = ""
    settings: Callable[[Settings], Any] | None = None


METHODS: Registry[Kind] = registry.METHODS
"""Kinds of methods."""
GROUPS: Registry[Callable[[Settings], list[str]]] = registry.GROUPS
"""What a name in `methods` may stand for: methods that need training are left out where nothing can be trained."""

LIMITS: Registry[Any] = registry.LIMITS
"""Limits of methods, each a `groups.Limit`, by the suffixes of their names."""


@dataclass(frozen=True)
class Method:
    """A way of ranking passages.

    Attributes:
        retriever: None for a ranking, which uses all, for `auto`, and for a control, which does not search.
        kind: A name in `METHODS`.
        level: Granularity of the passages, from 1, the finest; None if the method chooses it.
        of: What it has in common with others of its kind.
        limit: A name in `LIMITS`: each question gets passages of its group; empty for those of all chunks.
    """

    name: str
    retriever: RetrieverName | None
    kind: str
    level: int | None
    of: Kind = field(repr=False, compare=False)
    limit: str = ""

    def within(self, limit: str) -> Method:
        """Return the same method with another limit, or with none."""
        return replace(self, name=limited(self.name.removesuffix(limited("", self.limit)), limit), limit=limit)

    @property
    def family(self) -> str:
        """Return what it is listed under where people choose a method; empty for what all kinds are listed under."""
        return f"passages of the question's {LIMITS[self.limit].group}" if self.limit else self.of.family

    @property
    def ranking(self) -> bool:
        """Return whether it ranks pieces by all experts."""
        return self.of.ranking is not None

    @property
    def trained(self) -> bool:
        """Return whether it needs a model that is trained on questions."""
        return self.of.trained

    @property
    def control(self) -> bool:
        """Return whether its measured values are known in advance."""
        return self.of.control

    @property
    def evaluation_only(self) -> bool:
        """Return whether it cannot answer real questions: it needs gold evidence, or does not search."""
        return self.of.gold


def limited(name: str, limit: str) -> str:
    """Return the name of a method, or of a kind, with that of a limit, if there is one."""
    return f"{name}+{limit}" if limit else name


def unlimited(name: str) -> str:
    """Return the name of a kind without that of a limit."""
    return name.partition("+")[0]


def ungrouped() -> dict[str, Any]:
    """Return what answers tell of a query that no limit looked at."""
    groups = {limit.group: None for limit in LIMITS.values()}
    return {**groups, "label": "", "fallback": False} if groups else {}


def parse(name: str, settings: Settings) -> Method:
    """Return a method by any of its names; its `name` is the canonical one.

    Raises:
        ConfigError: no such method.
    """
    text = re.sub(r"^dense-(\d+)", r"dense:fixed-\1", name.strip())
    for other, of in registry.METHOD_NAMES.items():
        text = text.replace(other, of)
    match = _PATTERN.fullmatch(text)
    if match and match["kind"] in METHODS and (match["limit"] is None or match["limit"] in LIMITS):
        kind = METHODS[match["kind"]]
        numbers = kind.numbers(settings) if kind.numbers else None
        number = None if match["number"] is None else int(match["number"])
        numbered = number is None if numbers is None else number in numbers
        default = settings.retriever if kind.retrievers else None
        retriever = match["retriever"] or (default if default in kind.retrievers else next(iter(kind.retrievers), None))
        if numbered and retriever in (kind.retrievers or (None,)) and (kind.retrievers or not match["limit"]):
            bare = match["kind"] if number is None else f"{match['kind']}-{number}"
            only = retriever is None or retriever == default or len(kind.retrievers) == 1
            prefixed = bare if only else f"{retriever}:{bare}".replace("dense:fixed-", "dense-")
            level = None if number is None or numbers is None else number - numbers.start + 1
            limit = match["limit"] or ""
            full = limited(prefixed, limit)
            return Method(full, cast("RetrieverName | None", retriever), match["kind"], level, kind, limit)
    suffixes = f" or the suffix {' or '.join(limited('', limit) for limit in LIMITS)}" if LIMITS else ""
    raise ConfigError(
        f"method: expected one of {', '.join(_forms(settings))}, or one that searches with a retriever prefix "
        f"(hybrid:fixed-2){suffixes}, got {name!r}"
    )


def _forms(settings: Settings) -> list[str]:
    """Return how names of methods are written."""
    forms = []
    for name, kind in METHODS.items():
        numbers = kind.numbers(settings) if kind.numbers else None
        forms.append(name if numbers is None else f"{name}-{numbers.start}..{numbers.stop - 1}")
    return forms


def check_trained(key: str, method: Method, settings: Settings) -> None:
    """Reject a method that needs training in a project that has no questions for it.

    Args:
        key: Name of the option or setting.
        method: The method.
        settings: Of the project.

    Raises:
        ConfigError: the method needs training; the message names an alternative.
    """
    if method.trained and not settings.trains:
        raise ConfigError(
            f"{key}: {method.name!r} needs training, and no question set of this project has a train split: "
            f"name one under question_sets.NAME.train and run `mog run`, or use {method.of.instead!r}, which needs no "
            "training"
        )


def trained_methods(methods: Iterable[Method], settings: Settings, read: Callable[..., Any]) -> list[Method]:
    """Return the methods without those whose model had too few questions to be trained on."""
    keys = {method: needs([method], settings).common if method.trained else () for method in methods}
    return [m for m, assets in keys.items() if not any(read(k, None).manifest.info.get("untrained") for k in assets)]


def by_words(settings: Settings) -> Method:
    """Return the method that searches words alone: what it needs is built first, because vectors take longest."""
    return parse(f"fixed-{min(2, settings.levels)}", settings)


def needs(methods: Sequence[Method], settings: Settings) -> Needs:
    """Return the assets that some methods need for ranking."""
    union = Needs()
    for method in methods:
        union |= method.of.needs(method, settings)
        if method.limit:
            union |= LIMITS[method.limit].needs
    return union


def further_settings(settings: Settings) -> list[Any]:
    """Return what methods read of the settings beside those of every search: what ranks by them declares it."""
    functions = dict.fromkeys(kind.settings for kind in METHODS.values() if kind.settings is not None)
    return [function(settings) for function in functions]


def named_methods(settings: Settings) -> list[Method]:
    """Return the methods that `methods` names, in order; a method named twice counts once.

    Raises:
        ConfigError: one is unknown, or needs training in a project that has no questions for it.
    """
    methods: dict[str, Method] = {}
    for name in settings.methods or ("default",):
        if name in GROUPS:
            group = [parse(member, settings) for member in GROUPS[name](settings)]
            methods |= {method.name: method for method in group if settings.trains or not method.trained}
        else:
            method = parse(name, settings)
            check_trained("methods", method, settings)
            methods.setdefault(method.name, method)
    return list(methods.values())


def rankings() -> list[str]:
    """Return kinds that order pieces."""
    return [name for name, kind in METHODS.items() if kind.ranking is not None]


def controls() -> list[str]:
    """Return kinds whose measured values are known in advance."""
    return [name for name, kind in METHODS.items() if kind.control]


def unplaced() -> list[str]:
    """Return kinds that cannot answer real questions: they are shown beside others, but not ranked with them."""
    return [name for name, kind in METHODS.items() if kind.gold]


def is_unplaced(name: str) -> bool:
    """Tell whether the method of a canonical name is of a kind in `unplaced`."""
    return unlimited(name).rpartition(":")[2] in unplaced()


def all_methods(settings: Settings) -> list[Method]:
    """Return every method of a group or of the settings, whether it can be trained or not."""
    names = [name for group in GROUPS.values() for name in group(settings)]
    named = [name for name in settings.methods or () if name not in GROUPS]
    return list({method.name: method for method in (parse(name, settings) for name in [*names, *named])}.values())
