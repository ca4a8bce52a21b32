"""All settings of a project, and what must hold between sections."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Generic, TypeVar

from pydantic import Field, ValidationInfo, create_model, model_validator

from mog_assets import registry
from mog_assets.config.budget import Written
from mog_assets.config.corpora import CorpusSettings
from mog_assets.config.sections import (
    MOST_LEVELS,
    AnsweringSettings,
    AutomationSettings,
    Bm25Settings,
    ChunkerSettings,
    DriftSettings,
    Name,
    QuestionSetSettings,
    RankingSettings,
    RetrieverName,
)
from mog_assets.resources.chat import LlmSettings
from mog_assets.resources.encoder_settings import EncoderSettings, with_keys
from mog_assets.resources.engine import EngineSettings, engine_settings
from mog_assets.resources.errors import ConfigError
from mog_assets.resources.printable import printable
from mog_assets.resources.settings import MOST, Count, Place, SettingsModel


class Settings(SettingsModel):
    """The settings of the core, with absolute paths; see `settings_model`."""

    home: Place = Field(".mog", validate_default=True)
    corpora: dict[Name, CorpusSettings] = Field(min_length=1)
    question_sets: dict[Name, QuestionSetSettings] = {}
    levels: Annotated[int, Field(ge=1, le=MOST_LEVELS)] = 5
    finest_chars: Annotated[int, Field(ge=50, le=MOST)] = 500
    chunker: ChunkerSettings = ChunkerSettings()
    buckets: Annotated[int, Field(ge=1, le=4096)] = 32
    shard_chunks: Annotated[int, Field(ge=1, le=MOST)] = 262_144
    encoder: EncoderSettings = EncoderSettings()
    bm25: Bm25Settings = Bm25Settings()
    retriever: RetrieverName = "bm25"
    k_r: Count = 3
    k: Count = 2
    budget: Written = 4000
    ranking: RankingSettings = RankingSettings()
    drift: DriftSettings = DriftSettings()
    answering: AnsweringSettings = AnsweringSettings()
    llm: LlmSettings = LlmSettings()
    engine: EngineSettings = EngineSettings()
    automation: AutomationSettings = AutomationSettings()
    # None: the group `default` of search/methods.py.
    methods: list[str] | None = None
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0

    @model_validator(mode="after")
    def _home_apart(self, info: ValidationInfo) -> Settings:
        if not info.context:
            return self
        home = self.home
        existing = next(place for place in (home, *home.parents) if os.path.lexists(place))
        if not existing.is_dir():
            raise ValueError(
                f"home: expected a folder, or a path where one can be created, got {printable(home)}, but "
                f"{printable(existing)} is a file: choose another path"
            )
        for name, corpus in self.corpora.items():
            path = corpus.path
            inside = home == path or path in home.parents
            if inside and path.is_dir() and not any(part.startswith(".") for part in home.relative_to(path).parts):
                raise ValueError(
                    f"home: expected a folder outside every corpus, got {printable(home)} in corpora.{name}.path, "
                    "whose files would be read as documents: choose another, or one whose name starts with a dot"
                )
        return self

    @model_validator(mode="after")
    def _known_corpora(self) -> Settings:
        for name, question_set in self.question_sets.items():
            for corpus in question_set.corpora:
                if corpus not in self.corpora:
                    names = ", ".join(self.corpora)
                    raise ValueError(
                        f"question_sets.{name}.corpora: expected names of corpora ({names}), got {corpus!r}"
                    )
        return self

    @model_validator(mode="after")
    def _something_trains(self) -> Settings:
        reader = self.answering.reader
        if registry.ANSWER_READERS[reader].trains:
            self.check_trains("answering.reader", reader, "reader")
        return self

    def check_trains(self, setting: str, chosen: str, kind: str) -> None:
        """Check that there is something to train on, which the value of a setting needs.

        Raises:
            ValueError: no question set has a train split.
        """
        if not self.trains:
            raise ValueError(
                f"{setting}: expected a {kind} that needs no training, because no question set has a train split, "
                f"got {chosen!r}; name one under question_sets.NAME.train, or choose another {kind}"
            )

    @property
    def trains(self) -> bool:
        """Return whether any question set has a train split."""
        return any(question_set.train for question_set in self.question_sets.values())

    @property
    def tests(self) -> bool:
        """Return whether any question set has a test split."""
        return any(question_set.test for question_set in self.question_sets.values())

    @property
    def asks_a_model(self) -> bool:
        """Return whether anything is asked of the language model of `llm`."""
        # Only what may ask is read: what an asset reads of the settings is what it declares.
        asking = (
            (section.asks_model, section.of(self)) for section in registry.SECTIONS.values() if section.asks_model
        )
        return any(asks(value) for asks, value in asking) or self.answering.reader == "openai"

    @property
    def level_range(self) -> range:
        """The levels, finest first: 1 … n."""
        return range(1, self.levels + 1)


def check_corpora(settings: Settings, names: Sequence[str]) -> None:
    """Reject what is no corpus of the project."""
    unknown = [name for name in names if name not in settings.corpora]
    if unknown:
        raise ConfigError(f"--corpus: expected one of {', '.join(settings.corpora)}, got {printable(unknown[0])!r}")


@cache
def settings_model() -> type[Settings]:
    """Return the settings with the sections of all parts that are installed."""
    sections: dict[str, Any] = {name: (section.type, section.default) for name, section in registry.SECTIONS.items()}
    sections["encoder"] = (with_keys(EncoderSettings), with_keys(EncoderSettings)())
    sections["engine"] = (engine_settings(), engine_settings()())

    def check(settings: Settings) -> Settings:
        for section in registry.SECTIONS.values():
            section.check(settings)
        return settings

    validators: dict[str, Any] = {"_sections": model_validator(mode="after")(check)}
    options: dict[str, Any] = {"__base__": Settings, "__module__": __name__, "__validators__": validators}
    return create_model("Settings", __doc__="All settings.", **options, **sections)


Value = TypeVar("Value")


@dataclass(frozen=True)
class Section(Generic[Value]):
    """A section, or a single key, of the configuration.

    A part registers one, and reads it of any settings:

        SHELF = Section("shelf", ShelfSettings, ShelfSettings())
        registry.SECTIONS.register("shelf", SHELF)
        SHELF.of(settings).boards

    Attributes:
        name: The key in `mog.yaml`.
        type: Of the value, as pydantic takes it: a `SettingsModel`, or `… | None`.
        default: The value where the key is not given.
        prepare: Changes the keys and values of the whole file before they are checked.
        check: Raises ValueError, with what is expected and what came, if the settings do not fit together.
        encoders: Those that a value names: `mog prune` keeps their vectors.
        asks_model: Whether a value has something asked of the language model of `llm`; None if none ever has.
        scored: Whether scores depend on it: where they do not, two values of it are one configuration.
    """

    name: str
    type: Any
    default: Value
    prepare: Callable[[dict[str, Any]], Mapping[str, Any]] = lambda values: values
    check: Callable[[Settings], object] = lambda settings: None
    encoders: Callable[[Value], Iterable[EncoderSettings]] = lambda value: ()
    asks_model: Callable[[Value], bool] | None = None
    scored: bool = True

    def of(self, settings: Settings) -> Value:
        """Return the value of some settings."""
        value: Value = getattr(settings, self.name)
        return value
