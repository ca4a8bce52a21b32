"""Pairs of numbers as one, in the same order and without overflow; and the greatest numbers of rows."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mog_assets.resources.arrays import distinct, first_of_each, greatest, greatest_of, pairs, places, ranges, unpaired

FIRST, SECOND = st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**32 - 1)


def columns(rows, dtype=np.int64):
    return np.array([first for first, _ in rows], dtype), np.array([second for _, second in rows], dtype)


@given(st.lists(st.tuples(FIRST, SECOND)))
@example([(2**23 - 1, 5), (2**23, 0), (2**31 - 1, 2**31)])
def test_pairs_are_ordered_as_rows_of_two_and_give_them_back(rows):
    first, second = columns(rows)
    keys = pairs(first, second)
    assert [rows[i] for i in np.argsort(keys, kind="stable")] == sorted(rows)
    assert list(zip(*(column.tolist() for column in unpaired(keys)), strict=True)) == rows


def test_document_beyond_the_eight_millionth_is_not_taken_for_another():
    first, second = columns([(1, 7), (2**24 + 1, 7), (1, 7)])
    assert first_of_each(first, second).tolist() == [0, 1]


def test_numbers_of_narrow_types_do_not_overflow():
    first, second = columns([(3, 1), (5, 1)], np.int32)
    assert unpaired(pairs(first, second))[0].tolist() == [3, 5]


@pytest.mark.parametrize("row", [(2**31, 0), (-(2**31) - 1, 0), (0, 2**32), (0, -1)])
def test_number_that_does_not_fit_is_an_error(row):
    with pytest.raises(OverflowError, match=r"(first|second) must be from .* to .*, got"):
        pairs(*columns([row]))


def sorted_first(rows, k):
    """The definition: columns of the k greatest, of equal ones those of smaller columns."""
    return [sorted(sorted(range(len(row)), key=lambda i: (-row[i], i))[:k]) for row in rows]


@given(st.integers(0, 7).flatmap(lambda m: st.lists(st.lists(st.integers(-2, 2), min_size=m, max_size=m))), st.data())
def test_the_greatest_are_the_first_of_a_sorted_row(rows, data):
    scores = np.array(rows, np.float32).reshape(len(rows), len(rows[0]) if rows else 3)
    k = data.draw(st.integers(0, 9))
    assert [np.flatnonzero(row).tolist() for row in greatest(scores, k)] == sorted_first(rows, k)
    assert [greatest_of(row, k).tolist() for row in scores] == sorted_first(rows, k)


# Rows that are long enough for a sample of them to be looked at first.
@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(2048, 6000), st.integers(1, 6000), st.sampled_from([2, 50, 10**6]))
def test_the_greatest_of_long_rows_are_the_first_of_a_sorted_row(seed, length, k, different):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, different, (2, length)).astype(np.float32)
    # What is sampled may be the smallest or the greatest of the row.
    scores[:, :: length // 1024] += rng.choice([-different, 0, different])
    assert [np.flatnonzero(row).tolist() for row in greatest(scores, k)] == sorted_first(scores.tolist(), k)
    assert [greatest_of(row, k).tolist() for row in scores] == sorted_first(scores.tolist(), k)


@given(st.lists(st.integers(-3, 3)))
def test_different_numbers_are_those_of_numpy(numbers):
    assert distinct(np.array(numbers, np.int64)).tolist() == sorted(set(numbers))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=6))
def test_ranges_stand_one_after_the_other(rows):
    first, widths = np.array(rows, np.int64).reshape(-1, 2).T
    wanted = [number for start, width in rows for number in range(start, start + width)]
    assert ranges(first, first + widths).tolist() == wanted


@given(st.lists(st.integers(0, 3)))
def test_places_count_from_0_in_every_group(groups):
    groups = sorted(groups)
    assert places(np.array(groups, np.int64)).tolist() == [groups[:i].count(g) for i, g in enumerate(groups)]
