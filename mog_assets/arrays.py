"""Arrays as `.npy` files."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def save_array(path: Path, array: np.ndarray) -> None:
    """Write an array that `numpy.load` reads and maps.

    Raises:
        OSError: it could not be written whole. `numpy.save` does not see that of the last 4 KiB (numpy 2.4), and leaves
            a file that ends too early.
    """
    array = np.ascontiguousarray(array)
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(array))
        stream.write(array.reshape(-1).view(np.uint8).data)


# Arrays with a row for each thing of each group (a passage of a question, a chunk of a document), groups in order


def places(groups: np.ndarray) -> np.ndarray:
    """Place of every row in its group, from 0; `groups` is sorted."""
    if not len(groups):
        return np.zeros(0, np.int64)
    starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    return np.arange(len(groups)) - np.repeat(starts, np.diff(np.append(starts, len(groups))))


def running(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Sum of the values before every row in its group; `groups` is sorted."""
    before = np.cumsum(values) - values
    return before - before[np.arange(len(groups)) - places(groups)]


def pairs(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Two numbers as one int64, in the same order: much faster to sort than rows of two. `unpaired` undoes it.

    Args:
        first: Integers from −2^31 to 2^31 − 1.
        second: Integers from 0 to 2^32 − 1.

    Raises:
        OverflowError: a number lies outside.
    """
    for name, numbers, least, most in (("first", first, -(2**31), 2**31 - 1), ("second", second, 0, 2**32 - 1)):
        if numbers.size and not least <= numbers.min() <= numbers.max() <= most:
            raise OverflowError(f"{name} must be from {least} to {most}, got {numbers.min()} to {numbers.max()}")
    return (first.astype(np.int64, copy=False) << 32) | second.astype(np.int64, copy=False)


def unpaired(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and second number of each of `pairs`."""
    return keys >> 32, keys & (2**32 - 1)


def first_of_each(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Positions, ascending, at which a pair of numbers occurs first."""
    _, where = np.unique(pairs(first, second), return_index=True)
    return np.sort(where)


def ranges(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """All numbers from each first to each last, exclusive, one range after the other."""
    widths = last - first
    return np.repeat(first - np.cumsum(widths) + widths, widths) + np.arange(widths.sum())
