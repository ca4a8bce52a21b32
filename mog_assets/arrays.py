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
