"""Tables of terms that are mapped."""

import numpy as np
import pyarrow as pa
import pytest

from mog_assets.index import postings, term_tables
from mog_assets.index.postings import Terms
from mog_assets.index.statistics import Together
from mog_assets.index.term_tables import TermTable, write_table

TERMS = sorted(["heron", "Ångström", "茶叶", "o'clock", "🦦", "--verbose", *(f"word{i}" for i in range(500))])


@pytest.fixture
def write(tmp_path):
    def written(terms, numbers):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.arrow"
        write_table(terms, {"texts": np.array(numbers, np.uint32)}, path)
        return TermTable(path)

    return written


@pytest.mark.parametrize("many", [1, 10_000])
def test_terms_of_any_script_are_in_their_rows_and_others_in_none(write, monkeypatch, many):
    monkeypatch.setattr(term_tables, "_MANY", many)
    table = write(TERMS, range(len(TERMS)))
    assert list(table) == TERMS and table[3] == TERMS[3] and table[-1] == TERMS[-1] and table[2:4] == TERMS[2:4]
    terms = ["🦦", "missing", *reversed(TERMS), "", "hero", "herons"]
    expected = [TERMS.index(term) if term in TERMS else -1 for term in terms]
    assert table.rows(terms).tolist() == expected
    assert table.column("texts").tolist() == list(range(len(TERMS)))


def test_terms_with_the_same_hash_are_told_apart(write, monkeypatch):
    monkeypatch.setattr(term_tables, "_hashes", lambda terms: np.full(len(terms), 7, np.uint64))
    assert write(["a", "b", "c"], [1, 2, 3]).rows(["c", "a", "d", "b"]).tolist() == [2, 0, -1, 1]


def test_a_table_without_terms_has_none(write):
    table = write([], [])
    assert list(table) == [] and table.rows(["a"]).tolist() == [-1]
    assert Together(Terms([table]), "texts").most_frequent(3)[0] == []


@pytest.mark.parametrize("small", [0, 1 << 18])
@pytest.mark.parametrize("count", [1, 2, 3, 10, 1000])
def test_numbers_of_several_tables_are_those_of_their_sums(write, count, small, monkeypatch):
    monkeypatch.setattr(postings, "_SMALL", small)
    rng = np.random.default_rng(count)
    parts = [sorted(rng.choice(TERMS, 200, replace=False).tolist()) for _ in range(3)]
    numbers = [rng.integers(0, 9, len(terms)) for terms in parts]
    sums = {}
    for terms, own in zip(parts, numbers, strict=True):
        for term, number in zip(terms, own.tolist(), strict=True):
            sums[term] = sums.get(term, 0) + number
    terms = Terms([write(*part) for part in zip(parts, numbers, strict=True)])
    wanted = [*sums, "missing"]
    for place, (table, rows) in enumerate(zip(terms.tables, terms.rows(wanted).tolist(), strict=True)):
        assert rows == [parts[place].index(term) if term in parts[place] else -1 for term in wanted]
        assert rows == table.rows(wanted).tolist()
    together = Together(terms, "texts")
    assert together.totals() == sums
    assert together.values_of([*sums, "missing"]).tolist() == [*sums.values(), 0]
    best = sorted((term for term in sums if sums[term]), key=lambda term: (-sums[term], term))[:count]
    terms, values = together.most_frequent(count)
    assert terms[: len(best)] == best and values[: len(best)].tolist() == [sums[term] for term in best]


def test_a_damaged_table_is_told(write, tmp_path):
    write(TERMS, range(len(TERMS)))
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(pa.ArrowInvalid):
        TermTable(path)
