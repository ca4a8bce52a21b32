"""The frequent terms of a corpus, which say how much of its language an encoder knows."""

import json
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.index.statistics_assets import frequent_terms

ROWS = [
    {"language": "en", "sha256": "1", "text": "Otters swim. Herons wade."},
    {"language": "de", "sha256": "2", "text": "Der Otter schwimmt."},
    {"language": "", "sha256": "3", "text": "Newts shed. Otters eat."},
]


def counted(folder, rows):
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(rows), folder / "bucket.parquet")
    stored = SimpleNamespace(names=lambda _: ["bucket.parquet"], path=lambda name: folder / name)
    return json.dumps(frequent_terms(stored))


def test_what_is_written_does_not_depend_on_the_order_of_the_documents(tmp_path):
    first, second = counted(tmp_path / "a", ROWS), counted(tmp_path / "b", ROWS[::-1])
    assert first == second
    assert json.loads(first)["en"]["otter"] == 2 and list(json.loads(first)) == ["de", "en"]
