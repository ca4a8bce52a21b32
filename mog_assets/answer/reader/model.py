"""The file of a trained reader: weights in float16, calibration and what it was trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from mog_assets.answer.reader.calibration import Calibration, features
from mog_assets.resources import extras, tensors
from mog_assets.resources.embedded import embedded_folder
from mog_assets.resources.errors import MogError

if TYPE_CHECKING:
    from mog_assets.answer.reader.spans import ReaderSpan, SpanReader

FILE = "reader.safetensors"
# The weights that come with the package; reader.md says how they were made.
SHIPPED = Path(__file__).parent / FILE
# Increased when windows, network, calibration or the choice of spans change: files of another version are refused.
VERSION = "2"
_SETTING = "answering.reader"
_REMEDY = "reinstall mog-assets"


def source() -> Path:
    """Return the folder of the encoder whose weights the reader adapts."""
    return embedded_folder(_SETTING)


def encoded(arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> bytes:
    """Return the bytes of a file."""
    return tensors.encode(arrays, {"reader": VERSION, **facts})


class TrainedReader:
    """A trained reader; its network is opened when it first reads.

    Args:
        data: The bytes of its file.
        where: Names the file in errors.
        remedy: What to do where it is no reader.

    Raises:
        MogError: when it first reads: the file is no reader of this version.

    Attributes:
        name: Changes with everything that changes an answer.
    """

    # Passages whose spans are remembered: ways of answering, and rounds of a loop, read the same ones.
    REMEMBERED = 16_384

    def __init__(self, data: bytes, where: str, remedy: str = _REMEDY) -> None:
        self._data, self._where, self._remedy = data, where, remedy
        self._spans_of: dict[tuple[str, str, str], list[ReaderSpan]] = {}
        self._alone = Lock()
        self.name = hashlib.sha256(data).hexdigest()[:8]

    @cached_property
    def _checked(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return _checked(self._data, self._where, self._remedy)

    @property
    def facts(self) -> dict[str, Any]:
        """Return what it was trained on, its `calibration`, and how good it is."""
        return self._checked[1]

    @cached_property
    def _calibration(self) -> Calibration:
        return Calibration(**self.facts["calibration"])

    @property
    def certain(self) -> float:
        """Probability from which an answer is shown to people; see `Calibration`."""
        return self._calibration.certain

    @cached_property
    def _spans(self) -> SpanReader:
        with extras.needed(f"{_SETTING}: neural"):
            from mog_assets.answer.reader.spans import SpanReader

        return SpanReader(source(), self._checked[0])

    def best(self, question: str, passages: Sequence[tuple[str, str]]) -> list[ReaderSpan]:
        """Return best span of every window of the passages, best first, with its probability; see `SpanReader.best`."""
        with self._alone:
            missing = [pair for pair in dict.fromkeys(passages) if (question, *pair) not in self._spans_of]
            if len(self._spans_of) + len(missing) > self.REMEMBERED:
                self._spans_of.clear()
                missing = list(dict.fromkeys(passages))
            spans = self._spans.best(question, missing)
            self._spans_of.update({(question, *pair): [] for pair in missing})
            for span in spans:
                self._spans_of[(question, *missing[span.passage])].append(span)
            pairs = enumerate(passages)
            read_spans = [replace(s, passage=n) for n, pair in pairs for s in self._spans_of[(question, *pair)]]
        if not read_spans:
            return []
        read_spans.sort(key=lambda span: -span.score)
        chances = self._calibration.probabilities(features(question, passages, read_spans)).tolist()
        # The best one by its score is the answer: that is what was calibrated.
        return [replace(span, probability=chance) for span, chance in zip(read_spans, chances, strict=True)]


@lru_cache(2)
def opened(data: bytes, where: str, remedy: str = _REMEDY) -> TrainedReader:
    """Return a reader; the same one for the same bytes, with what it remembers."""
    return TrainedReader(data, where, remedy)


def shipped() -> TrainedReader:
    """Return the reader that comes with the package."""
    return opened(SHIPPED.read_bytes(), str(SHIPPED))


def _checked(data: bytes, where: str, remedy: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    wanted = f"expected a reader of version {VERSION}"
    try:
        arrays, facts = tensors.decode(data)
    except ValueError as error:
        raise MogError(f"{_SETTING}: {where}: {wanted}, got a damaged file ({error}): {remedy}") from error
    if not isinstance(facts, dict) or facts.get("reader") != VERSION:
        raise MogError(f"{_SETTING}: {where}: {wanted}, got another file: {remedy}")
    with extras.needed(f"{_SETTING}: neural"):
        from mog_assets.answer.reader import network

    shapes = network.shapes(source())
    got = {name: array.shape for name, array in arrays.items()}
    if got != shapes or not all(np.isfinite(array).all() for array in arrays.values()):
        odd = sorted({*got, *shapes} - {n for n in got.keys() & shapes.keys() if got[n] == shapes[n]})
        raise MogError(
            f"{_SETTING}: {where}: {wanted}, got other arrays ({', '.join(odd[:3]) or 'not finite'}): {remedy}"
        )
    return arrays, facts
