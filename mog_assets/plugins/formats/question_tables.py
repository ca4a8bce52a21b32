"""Read Parquet files of questions."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.questions.records import MOST, QuestionTable, unpacked
from mog_assets.registry import QUESTION_TABLES
from mog_assets.resources.errors import MogError

# Rows that are unpacked at once, and bytes that the used columns of a row group may have.
_BATCH_ROWS, _MOST_GROUP = 64, 2 << 30


@contextmanager
def _parquet(path: Path) -> Iterator[pq.ParquetFile]:
    with unpacked(path, "Parquet file") as (stream, _):
        try:
            with pq.ParquetFile(stream) as file:
                yield file
        except (pa.ArrowException, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise MogError(f"{path}: expected a readable Parquet file, got: {reason}") from error


def _columns(path: Path) -> list[str]:
    with _parquet(path) as file:
        return list(file.schema_arrow.names)


def _rows(path: Path, columns: Sequence[str]) -> Generator[tuple[int, dict[str, Any] | str], None, None]:
    with _parquet(path) as file:
        _check_size(path, file, set(columns))
        number = 0
        for batch in file.iter_batches(_BATCH_ROWS, columns=list(columns)):
            for row in (batch.slice(at, 1) for at in range(len(batch))):
                number += 1
                if row.nbytes > MOST:
                    yield number, f"expected at most {MOST} bytes per row, got {row.nbytes}: not read"
                    continue
                try:
                    (values,) = row.to_pylist()
                except UnicodeDecodeError as error:
                    yield number, f"expected UTF-8, got byte 0x{error.object[error.start]:02x}"
                    continue
                yield number, values


def _check_size(path: Path, file: pq.ParquetFile, used: set[str]) -> None:
    """Reject a row group that would not fit into memory; one group is unpacked at a time."""
    for g in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(g)
        chunks = (group.column(c) for c in range(group.num_columns))
        size = sum(c.total_uncompressed_size for c in chunks if c.path_in_schema.split(".")[0] in used)
        if size > _MOST_GROUP:
            raise MogError(
                f"{path}: expected row groups of at most {_MOST_GROUP} bytes in the columns of questions, got {size}: "
                "write it with smaller row groups"
            )


QUESTION_TABLES.register(".parquet", QuestionTable(_columns, _rows))
