"""Which model encodes texts, and how."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from pydantic import create_model, model_validator

from mog_assets.resources import extras
from mog_assets.resources.registry import ENCODER_KEYS, ENCODERS, FAMILIES
from mog_assets.resources.settings import Count, ModelName, NamedSettings

EMBEDDED = "all-MiniLM-L6-v2"

Vectors = np.ndarray  # float16, shape (n, size), rows of length 1
Role = Literal["passage", "query"]
# Keys with their texts, or with the bytes of their vectors.
Hashed = list[tuple[bytes, Any]]


class EncoderSettings(NamedSettings):
    """Sentence encoder: the embedded `all-MiniLM-L6-v2`, another that has a name, a Hugging Face id, or a local folder.

    A vector is the mean of the tokens' vectors, or that of
    the first (`cls`) or `last` token. `query_prompt` and `passage_prompt` are put before questions and passages. What
    is left out is what the model's files say, or the family that its name tells; a served
    model has no prompts but those that are set. `dimensions` keeps the first ones of each vector, which some models are
    trained for.
    """

    main: ClassVar[str] = "model"
    # Keys that change no vector of a text.
    unidentified: ClassVar[frozenset[str]] = frozenset({"device", "cache_mb"})

    # The paper's encoder is FacebookAI/roberta-base; the embedded one needs no download.
    model: ModelName = EMBEDDED
    query_prompt: str | None = None
    passage_prompt: str | None = None
    dimensions: Count | None = None
    pooling: Literal["auto", "mean", "cls", "last"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    max_length: Count = 256
    # Bytes of vectors that no artefact holds (questions, removed texts), in MiB.
    cache_mb: Count = 256

    @model_validator(mode="after")
    def _of_its_own(self) -> EncoderSettings:
        if self.model == EMBEDDED or self.served or self.model not in ENCODERS:
            return self
        fixed = ENCODERS[self.model].fixed
        chosen = [name for name in fixed if getattr(self, name) != type(self).model_fields[name].default]
        if chosen:
            raise ValueError(f"{self.model} has this of its own: leave out {', '.join(chosen)}")
        return self

    @property
    def served(self) -> EncoderKey | None:
        """The key by which vectors are computed elsewhere, if one is given."""
        return next((key for name, key in ENCODER_KEYS.items() if getattr(self, name, None) is not None), None)

    def prompt(self, role: Role) -> str | None:
        """Return what is put before a text; None if that is left to the model."""
        return self.query_prompt if role == "query" else self.passage_prompt


EncoderT = TypeVar("EncoderT", bound=EncoderSettings)


@cache
def with_keys(settings: type[EncoderT]) -> type[EncoderT]:
    """Return settings of an encoder with the keys of all parts that are installed."""
    keys: dict[str, Any] = {name: (key.type | None, None) for name, key in ENCODER_KEYS.items()}
    options: dict[str, Any] = {"__base__": settings, "__module__": settings.__module__, "__doc__": settings.__doc__}
    return create_model(settings.__name__, **options, **keys)


@dataclass(frozen=True)
class EncoderKey:
    """A key of the settings of encoders; where it is given, the model computes vectors elsewhere.

    Attributes:
        type: Of its value.
        open: Gives the model, see `encoder.Model`, of the settings.
    """

    type: Any
    open: Callable[[Any], Any]


@dataclass(frozen=True)
class NamedEncoder:
    """An encoder that has a name of its own.

    Attributes:
        name: Of `encoder.model`.
        open: Gives its model, see `encoder.Model`, of the settings and their place in `mog.yaml`, for messages.
        fixed: Settings that the model has of its own.
        package: What it needs besides, as it is imported; empty: nothing.
        languages: Those that it knows beside English, for people; empty: none.
    """

    name: str
    open: Callable[[EncoderSettings, str], Any]
    fixed: tuple[str, ...] = ()
    package: str = ""
    languages: str = ""

    @property
    def is_installed(self) -> bool:
        """Return whether the package that it needs is there."""
        return not self.package or find_spec(self.package) is not None

    @property
    def command(self) -> str:
        """Return what installs the package."""
        return extras.command(self.package)


def encoders_of_languages() -> list[NamedEncoder]:
    """Return the encoders with a name that know other languages than English."""
    return [encoder for encoder in ENCODERS.values() if encoder.languages]


Pooling = Literal["mean", "cls", "last"]


@dataclass(frozen=True)
class EncoderFamily:
    """Use of models.

    Attributes:
        query: Words before a question.
        passage: Words before a passage.
        pooling: Whether a vector is the mean of the tokens' vectors, or that of the first or last one.
    """

    query: str = ""
    passage: str = ""
    pooling: Pooling = "mean"


def family(model: str, files: Path | None = None) -> EncoderFamily:
    """Return how a model is used."""
    name = model.rstrip("/").rpartition("/")[2].lower()
    known = next((its for pattern, its in FAMILIES.items() if re.search(pattern, name)), EncoderFamily())
    prompts = _read(files, "config_sentence_transformers.json").get("prompts") or {}
    pooled = _read(files, "1_Pooling/config.json")
    return EncoderFamily(
        _text(prompts, ("query", "search_query"), known.query),
        _text(prompts, ("document", "passage", "search_document"), known.passage),
        _pooling(pooled, known.pooling),
    )


def _text(prompts: Any, names: tuple[str, ...], known: str) -> str:
    values = [prompts[name] for name in names if isinstance(prompts, dict) and isinstance(prompts.get(name), str)]
    # Files that name prompts and leave them empty mean those of the card.
    return next(filter(None, values), known)


def _pooling(pooled: dict[str, Any], known: Pooling) -> Pooling:
    modes: tuple[tuple[str, Pooling], ...] = (
        ("pooling_mode_cls_token", "cls"),
        ("pooling_mode_lasttoken", "last"),
        ("pooling_mode_mean_tokens", "mean"),
    )
    return next((mode for name, mode in modes if pooled.get(name) is True), known)


def _read(folder: Path | None, name: str) -> dict[str, Any]:
    if folder is None or not (folder / name).is_file():
        return {}
    try:
        values = json.loads((folder / name).read_text(encoding="utf-8"))
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}
