"""Candidates: questions before they are checked, and what is wrong with the others; as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.plugins.generated_questions.windows import Extract

# States of a request.
ANSWERED, REFUSED, OPEN = "answered", "refused", "open"


@dataclass(frozen=True)
class Candidate:
    """A question that has not been checked.

    Attributes:
        window: What it was made from.
        quotes: Texts that it rests on; they may not stand in the document.
    """

    window: Extract
    question: str
    answer: str
    quotes: tuple[str, ...]


@dataclass(frozen=True)
class ModelRequest:
    """A request for a question, and what came of it.

    Attributes:
        key: Digest of everything that decides the answer; an answer is used again for an equal key.
        document: Id of the document.
        number: Of the question among those of the document.
        state: `answered`; `refused`: there will be no answer; or `open`: the next run asks again.
        said: The model's output, or why there is none.
    """

    key: str
    document: str
    number: int
    state: str
    said: str


@dataclass(frozen=True)
class Dropped:
    """A question that was not kept.

    Attributes:
        reason: One of `filters.REASONS`.
        detail: More about the reason.
    """

    document: str
    number: int
    style: str
    question: str
    reason: str
    detail: str


_REQUEST_SCHEMA = pa.schema(
    [("key", pa.string()), ("document", pa.string()), ("number", pa.int32())]
    + [("state", pa.string()), ("said", pa.string())]
)
_DROPPED = pa.schema(
    [("document", pa.string()), ("number", pa.int32())]
    + [(name, pa.string()) for name in ("style", "question", "reason", "detail")]
)


def write_asked(rows: Sequence[ModelRequest], path: Path) -> None:
    """Write requests."""
    pq.write_table(pa.Table.from_pylist([asdict(row) for row in rows], _REQUEST_SCHEMA), path, compression="zstd")


def read_asked(paths: Iterable[Path]) -> Mapping[str, ModelRequest]:
    """Return requests of some files, by key."""
    return {row["key"]: ModelRequest(**row) for path in paths for row in pq.read_table(path).to_pylist()}


def write_dropped(rows: Sequence[Dropped], path: Path) -> None:
    """Write questions that were not kept."""
    pq.write_table(pa.Table.from_pylist([asdict(row) for row in rows], _DROPPED), path, compression="zstd")
