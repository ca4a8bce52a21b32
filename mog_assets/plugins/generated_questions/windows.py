"""Which documents questions are made from, and from which part of each: drawn by hashes.

A document keeps its place in the draw, its styles and its windows whatever else is added or removed, so that only
changed documents are asked for again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mog_assets.plugins.generated_questions.settings import GenerationSettings
from mog_assets.text.cuts import units


@dataclass(frozen=True)
class Breadth:
    """Extent of a document that an answer rests on.

    Attributes:
        text: In words, for a model.
        window: Characters of the document that the question is made from, at most.
        evidence: Characters that a question may rest on, at most.
    """

    text: str
    window: int
    evidence: int


BREADTHS = {
    "sentence": Breadth("one sentence of the text", 1200, 600),
    "paragraph": Breadth("several sentences of the text that stand together", 2400, 1600),
    "section": Breadth("at least two places of the text that are not beside each other", 8000, 4000),
}


@dataclass(frozen=True)
class Extract:
    """A part of a document that one question is made from.

    Attributes:
        document: Id of the document.
        title: Of the document.
        number: Of the question among those of the document, from 0.
        style: One of the settings.
        breadth: A key of `BREADTHS`.
        start: Offset of the first character of `text` in the document.
        text: What the question is made from.
    """

    document: str
    title: str
    number: int
    style: str
    breadth: str
    start: int
    text: str


def sample_documents(documents: Iterable[str], most: int, seed: int) -> set[str]:
    """Return ids of the documents that questions are made from: all, or `most` of them.

    Args:
        documents: Ids of all documents of a corpus.
        most: How many.
        seed: Other seeds draw other documents.
    """
    return set(sorted(documents, key=lambda identity: (_number(seed, identity), identity))[:most])


def windows(document: str, title: str, text: str, settings: GenerationSettings, seed: int) -> list[Extract]:
    """Return the parts of a document that its questions are made from, one for each question.

    Args:
        document: Id of the document.
        title: Its title.
        text: Its text.
        settings: How many questions, of which styles and breadths.
        seed: Other seeds draw other parts.
    """
    first = _number(seed, document, "style")
    extracts, ends = [], dict[int, list[int]]()
    for number in range(settings.per_document):
        styles, breadths = settings.styles, settings.breadths
        # Neighbours differ in both, and every combination has its turn.
        rounds, turn = divmod(first + number, len(styles))
        style, breadth = styles[turn], breadths[(rounds + turn) % len(breadths)]
        longest = BREADTHS[breadth].window
        if longest not in ends:
            ends[longest] = units(text, longest).tolist()
        start, end = _part(text, ends[longest], longest, _number(seed, document, number))
        if text[start:end].strip():
            extracts.append(Extract(document, title, number, style, breadth, start, text[start:end]))
    return extracts


def _part(text: str, ends: Sequence[int], longest: int, draw: int) -> tuple[int, int]:
    """Return whole sentences from a drawn one on, as many as fit; near the end, from an earlier one on."""
    if len(text) <= longest:
        return 0, len(text)
    starts = [0, *ends[:-1]]
    first = draw % len(starts)
    while first and ends[-1] - starts[first - 1] <= longest:
        first -= 1
    last = first
    while last + 1 < len(ends) and ends[last + 1] - starts[first] <= longest:
        last += 1
    return starts[first], ends[last]


def _number(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).digest()[:8], "big")
