"""Parquet files: a row is a document, read in a process of its own."""

import contextlib
import datetime
import decimal
import json
import os
import random
import resource
import subprocess
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mog_assets.documents import worker
from mog_assets.documents.memory import load_memory
from mog_assets.documents.reading import read_corpus
from mog_assets.documents.worker import Limits

LIMIT = 100_000


def read(path, memory=None, limit=LIMIT, **limits):
    return read_corpus(path, limit, memory, limits=Limits(**limits))


def birds(number, **changed):
    rows = [{"id": f"b{n}", "title": f"Bird {n}", "text": f"Bird {n} has {n} eggs."} for n in range(number)]
    for identity, text in changed.items():
        next(row for row in rows if row["id"] == identity)["text"] = text
    return rows


def test_a_row_is_a_document_whose_other_columns_are_metadata(tmp_path):
    frame = pd.DataFrame(
        {
            "id": ["a", "b"],
            "title": ["Hens", None],
            "text": ["Five eggs.", "Nine eggs."],
            "eggs": [5, 9],
            "weight": [1.5, np.nan],
            "seen": [datetime.date(2026, 5, 1), None],
            "price": [decimal.Decimal("2.50"), None],
            "tags": [["brown", "tame"], []],
            "photo": [b"\x00\xff", None],
        }
    )
    frame.to_parquet(tmp_path / "birds.parquet")
    hens, ducks = read(tmp_path / "birds.parquet").documents
    assert (hens.id, hens.title, hens.text) == ("a", "Hens", "Five eggs.")
    expected = {"eggs": 5, "weight": 1.5, "seen": "2026-05-01", "price": 2.5, "tags": ["brown", "tame"]}
    assert {**json.loads(hens.metadata), **expected} == json.loads(hens.metadata)
    assert "photo" not in hens.metadata and '"weight": null' in ducks.metadata


def test_rows_without_id_and_text_are_named_by_their_place_and_written_as_lines(tmp_path):
    pq.write_table(pa.table({"name": ["hen", "duck"], "eggs": [5, 9]}), tmp_path / "t.parquet")
    documents = read(tmp_path).documents
    assert [(d.id, d.text) for d in documents] == [
        ("t.parquet:1", "name: hen\neggs: 5"),
        ("t.parquet:2", "name: duck\neggs: 9"),
    ]


def test_only_rows_that_changed_are_read_again(tmp_path):
    path = tmp_path / "birds.parquet"
    pq.write_table(pa.Table.from_pylist(birds(1000)), path, row_group_size=100)
    first = read(path)
    first.journal.write(tmp_path / "memory", "x")
    memory = load_memory(tmp_path / "memory", "x")
    pq.write_table(pa.Table.from_pylist(birds(1001, b77="Bird 77 is gone.")), path)
    second = read(path, memory)
    assert len(second.used) == 1001 and len(second.normalised) == 2
    assert [o.digest for o in read(path).used] == [o.digest for o in second.used]


def test_a_process_with_more_than_a_thousand_open_files_reads_rows(tmp_path):
    pq.write_table(pa.Table.from_pylist(birds(3)), tmp_path / "a.parquet")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(1100):
                stack.enter_context(open(os.devnull))
            assert [d.id for d in read(tmp_path).documents] == ["b0", "b1", "b2"]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_row_that_is_too_long_and_one_without_text_are_skipped(tmp_path):
    rows = [*birds(2), {"id": "long", "title": "", "text": "x" * LIMIT}, {"id": "none", "title": "", "text": None}]
    pq.write_table(pa.Table.from_pylist([*rows, {**birds(3)[2]}]), tmp_path / "a.parquet")
    reading = read(tmp_path)
    assert [used.id for used in reading.used] == ["b0", "b1", "b2"]
    assert [skipped.place for skipped in reading.skipped] == ["a.parquet:3", "a.parquet:4"]
    assert "max_document_mb" in reading.skipped[0].reason and reading.skipped[1].reason == "empty document"


def hostile(kind):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(birds(500)), sink, row_group_size=100, compression="zstd")
    whole = bytearray(sink.getvalue().to_pybytes())
    if kind == "cut":
        return bytes(whole[:-100])
    if kind == "noise":
        return b"PAR1" + random.Random(0).randbytes(5000) + b"PAR1"
    if kind == "length":
        whole[-8:-4] = b"\xff\xff\xff\x7f"
    if kind == "pages":
        whole[500:600] = random.Random(0).randbytes(100)
    return b"" if kind == "empty" else bytes(whole)


@pytest.mark.parametrize("kind", ["cut", "noise", "length", "empty", "pages"])
def test_a_hostile_file_costs_that_file(tmp_path, kind):
    (tmp_path / "a.parquet").write_bytes(hostile(kind))
    (tmp_path / "fine.txt").write_text("Fine.")
    reading = read(tmp_path)
    assert "fine.txt" in [used.id for used in reading.used]
    ((place, reason),) = [(skipped.place, skipped.reason) for skipped in reading.skipped]
    assert place == "a.parquet" and "damaged: expected a readable .parquet file" in reason, reason


@pytest.mark.full
def test_files_that_need_more_memory_or_time_than_the_limits_are_skipped(tmp_path, monkeypatch):
    # 3 GB of text, in a file of a few kilobytes.
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 100), pa.array(["x" * 30_000_000]))
    pq.write_table(pa.table({"text": text}), tmp_path / "bomb.parquet")
    (tmp_path / "fine.txt").write_text("Fine.")
    reading = read(tmp_path, memory_bytes=700_000_000)
    assert [used.id for used in reading.used] == ["fine.txt"] and reading.skipped
    assert any("max_memory_mb" in skipped.reason for skipped in reading.skipped), reading.skipped[0].reason
    monkeypatch.setattr(worker, "_CODE", "import time; time.sleep(60)")
    begin = time.monotonic()
    (skipped,) = read(tmp_path, seconds=1).skipped
    assert "expected the next rows in 1 s (max_seconds)" in skipped.reason and time.monotonic() - begin < 30
    monkeypatch.setattr(worker, "_CODE", "import os; os.kill(os.getpid(), 11)")
    (skipped,) = read(tmp_path).skipped
    assert "the parser crashed" in skipped.reason
    assert "parquet import main" not in subprocess.run(["ps", "-ef"], capture_output=True, text=True).stdout
