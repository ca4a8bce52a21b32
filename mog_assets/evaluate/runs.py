"""Runs: the ranked passages of every method on every test question."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.config import Settings
from mog_assets.index.corpora import Corpora
from mog_assets.questions.sets import Question
from mog_assets.search.depth import cut
from mog_assets.search.methods import Method
from mog_assets.search.passages import Passages
from mog_assets.search.retrieval import Retrieval

RUNS = "runs.parquet"
_TEXT = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        ("question_set", _TEXT),
        ("split", _TEXT),
        ("question", _TEXT),
        ("method", _TEXT),
        ("rank", pa.int32()),
        ("corpus", _TEXT),
        ("doc", _TEXT),
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("tokens", pa.int32()),
        ("level", pa.int8()),
        ("score", pa.float32()),
    ]
)


@dataclass(frozen=True)
class RunTable:
    """A table that is written beside the runs, in a file of its name.

    Attributes:
        rows: Gives rows, given a method, the questions that it ranks, and their retrieval.
        make: Makes the table of all rows, given the settings.
    """

    rows: Callable[[Method, Sequence[Question], Retrieval], list[Any]]
    make: Callable[[list[Any], Settings], pd.DataFrame]


def ranked(method: Method, retrieval: Retrieval, k: int) -> Passages:
    """Return the passages of every question that measures use.

    Args:
        method: The method.
        retrieval: Retrieval for measured questions.
        k: Number of passages per question.
    """
    return cut(retrieval.rank(method, k), k)


def run_table(
    name: str,
    questions: Sequence[Question],
    method: str,
    passages: Passages,
    corpora: Corpora,
) -> pa.Table:
    """Return ranked passages as rows of a run.

    Args:
        name: The question set.
        questions: The questions of the passages, in order.
        method: Name of the method.
        passages: The passages.
        corpora: The corpora of the question set.

    Returns:
        Columns as in `SCHEMA`; ranks from 1, tokens as `Corpora.tokens_in` counts them.
    """
    columns = {
        "question_set": _coded(np.zeros(len(passages.question)), pa.array([name])),
        "split": _coded(passages.question, pa.array([q.split for q in questions], pa.string())),
        "question": _coded(passages.question, pa.array([q.id for q in questions], pa.string())),
        "method": _coded(np.zeros(len(passages.question)), pa.array([method])),
        "rank": passages.rank + 1,
        "corpus": _coded(corpora.owners[passages.document], pa.array(corpora.names, pa.string())),
        "doc": _coded(passages.document, pa.array(corpora.layout.documents, pa.string())),
        "start": passages.start,
        "end": passages.end,
        "tokens": corpora.tokens_in(passages.document, passages.start, passages.end),
        "level": passages.level,
        "score": passages.score,
    }
    return pa.table([pa.array(columns[f.name]).cast(f.type) for f in SCHEMA], schema=SCHEMA)


def _coded(numbers: np.ndarray, values: pa.Array) -> pa.Array:
    """Return values encoded as numbers; equal values share a code."""
    coded = values.dictionary_encode()
    return pa.DictionaryArray.from_arrays(coded.indices.take(pa.array(numbers, pa.int32())), coded.dictionary)


def write_runs(tables: Iterator[pa.Table], path: Path, advance: Callable[[int], None]) -> int:
    """Write runs as they come; returns the number of passages."""
    rows = 0
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table)
            rows += len(table)
            advance(1)
    return rows


def read_runs(path: Path) -> pd.DataFrame:
    """Return runs as a table."""
    return pq.read_table(path).to_pandas()
