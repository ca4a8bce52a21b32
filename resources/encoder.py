"""The sentence encoder: unit vectors of texts, and a cache by text and encoder."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, nullcontext
from functools import cached_property, partial
from pathlib import Path
from threading import RLock
from typing import Any, Protocol

import numpy as np

from mog_assets.resources import tracing
from mog_assets.resources.encoder_settings import EMBEDDED, EncoderSettings, Hashed, NamedEncoder, Role, Vectors
from mog_assets.resources.files import reach
from mog_assets.resources.progress import stored_counts
from mog_assets.resources.registry import ENCODER_KEYS, ENCODERS
from mog_assets.resources.store import digest
from mog_assets.resources.vector_cache import VectorCache, add, lookup, text_hash

Advance = Callable[[int], None]


class EncoderModel(Protocol):
    """A model that computes vectors."""

    @property
    def identity(self) -> list[Any]:
        """Shows without reading weights whether vectors may have changed."""

    @property
    def fingerprint(self) -> str:
        """Changes with everything that changes a vector."""

    @property
    def description(self) -> str:
        """Return where and how it computes, for people."""

    def prompt(self, role: Role) -> str:
        """Return what is put before a text."""

    @property
    def size(self) -> int | None:
        """Size of a vector; None until there is one."""

    @property
    def by_role(self) -> bool:
        """Return whether questions and passages are told apart beside their prompts."""

    def is_token(self, words: Sequence[str]) -> np.ndarray:
        """Return which words it knows: bool array of shape (words,)."""

    def vectors(self, items: Hashed, role: Role) -> Generator[Hashed]:
        """Yield keys and vectors of texts, some at a time."""


def _embedded(settings: EncoderSettings, setting: str) -> EncoderModel:
    from mog_assets.resources.transformer import Embedded

    return Embedded(settings, setting)


def _transformer(settings: EncoderSettings, setting: str) -> EncoderModel:
    from mog_assets.resources.transformer import Transformer

    return Transformer(settings, setting)


ENCODERS.register(EMBEDDED, NamedEncoder(EMBEDDED, _embedded))


class Encoder:
    """Turns texts into unit vectors of float16.

    Args:
        settings: Which model, and how.
        cache: Folder of the vector cache; None encodes every time.
        setting: Names the model in errors.
        keep: Whether vectors are added to the cache; False only reads it.
        role: What is encoded. `questions` is the encoder of questions.

    The model is loaded when the first text is not in the cache.
    """

    def __init__(
        self,
        settings: EncoderSettings,
        cache: Path | None = None,
        setting: str = "encoder.model",
        keep: bool = True,
        role: Role = "passage",
    ) -> None:
        self.settings = settings
        self.cache = cache
        self.keep = keep
        self.setting = setting
        self.role = role
        self.encoded = 0
        # The number of threads of a computation, which decides how it is rounded, belongs to the whole process.
        self._alone = nullcontext() if settings.served else RLock()
        # Encodes what is not in the cache on other machines; None: here.
        self.elsewhere: Callable[[Hashed], Generator[Hashed]] | None = None

    @cached_property
    def model(self) -> EncoderModel:
        """Return what computes vectors."""
        if served := self.settings.served:
            model: EncoderModel = served.open(self.settings)
            return model
        named = ENCODERS.get(self.settings.model)
        model = (_transformer if named is None else named.open)(self.settings, self.setting)
        return model

    @cached_property
    def questions(self) -> Encoder:
        """The encoder of questions, whose vectors are compared with those of passages: the same model."""
        if self.model.prompt("query") == self.model.prompt("passage") and not self.model.by_role:
            return self
        encoder = Encoder(self.settings, self.cache, self.setting, self.keep, "query")
        encoder.model, encoder._alone = self.model, self._alone
        return encoder

    @cached_property
    def identity(self) -> list[Any]:
        """Shows without reading weights whether vectors may have changed: settings, files of a local folder."""
        ignored = {*self.settings.unidentified, *ENCODER_KEYS}
        return [self.settings.model_dump(exclude=ignored), *self.model.identity]

    @cached_property
    def fingerprint(self) -> str:
        """Changes with everything that changes a vector: weights, tokenizer, pooling, length, dtype; not the device."""
        model, prompt, dimensions = self.model.fingerprint, self.model.prompt(self.role), self.settings.dimensions
        role = self.role if self.questions is not self and self.settings.served else ""
        return digest(model, prompt, dimensions, role)[:16] if prompt or dimensions or role else model

    @cached_property
    def size(self) -> int:
        """Size of a vector."""
        return self.settings.dimensions or self.model.size or self.encode(["size"]).shape[1]

    def encode(self, texts: Sequence[str], advance: Advance | None = None, keep: bool = True) -> Vectors:
        """Encode texts; duplicates are encoded once, cached texts not at all.

        Args:
            texts: n texts.
            advance: Called with the number of texts done since the last call.
            keep: Use the cache; False encodes all texts now, and stores nothing.

        Returns:
            float16 array of shape (n, size); rows have length 1.
        """
        with self._alone:
            return self._encode_anyhow(texts, advance, keep)

    def encode_questions(self, texts: Sequence[str], keep: bool = True) -> Vectors:
        """Encode questions, see `encode`; the model is looked for when there are some."""
        return self.questions.encode(texts, keep=keep)

    @cached_property
    def encode_uncached(self) -> Callable[[Sequence[str]], Vectors]:
        """Encodes texts, without the cache: without torch, where the model can."""
        make = getattr(self.model, "without_torch", None)
        return (make and make(self.role)) or partial(self.encode, keep=False)

    def _encode_anyhow(self, texts: Sequence[str], advance: Advance | None, keep: bool) -> Vectors:
        """Do as `encode`, one at a time; a damaged cache is discarded."""
        if self.cache is None or not keep:
            return self._encode(texts, advance, None)
        cache = VectorCache(self.cache, self.fingerprint)

        def encode() -> Vectors:
            with cache.open() as connection:
                return self._encode(texts, advance, connection)

        return cache.using(encode, lambda: len(texts) * (self.model.size or 0) * 2)

    def _encode(self, texts: Sequence[str], advance: Advance | None, cache: sqlite3.Connection | None) -> Vectors:
        hashed = cache is not None or self.elsewhere is not None
        keys = [text_hash(text) if hashed else text.encode("utf-8", "surrogatepass") for text in texts]
        vectors_of: dict[bytes, bytes] = {}
        first = {key: text for key, text in zip(reversed(keys), reversed(texts), strict=True)}
        if cache is not None:
            vectors_of.update(lookup(cache, list(first)))
        missing = [(key, text) for key, text in first.items() if key not in vectors_of]
        if advance and len(missing) < len(texts):
            advance(len(texts) - len(missing))
        work = (self.elsewhere or self.encode_here)(missing)
        with tracing.span("encode", texts=len(missing), model=self.settings.model), closing(work) as groups:
            for done in groups:
                if cache is not None and self.keep:
                    with cache:
                        # A text without a vector is asked for again.
                        add(cache, [one for one in done if any(one[1])])
                    stored_counts["vectors"] += len(done)
                    reach("vectors cached")
                vectors_of.update(done)
                self.encoded += len(done)
                if advance:
                    advance(len(done))
        if not texts:
            return np.zeros((0, self.size), np.float16)
        return np.stack([np.frombuffer(vectors_of[key], np.float16) for key in keys])

    def encode_here(self, items: Hashed) -> Generator[Hashed]:
        """Yield keys and vectors of texts, by the model, some at a time."""
        return self.model.vectors(items, self.role)
