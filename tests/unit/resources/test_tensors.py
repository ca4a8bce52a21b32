"""Arrays in safetensors files."""

import numpy as np
import pytest

from mog_assets.resources.tensors import encode, mapped


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint32, np.int64, np.float16, np.float32])
def test_mapped_arrays_are_those_that_were_written(tmp_path, kind):
    arrays = {"one": np.arange(24).astype(kind).reshape(4, 6), "none": np.zeros((0, 3), kind), "two": np.ones(5, kind)}
    path = tmp_path / "file"
    path.write_bytes(encode(arrays, {"fact": 1}))
    opened = mapped(path)
    assert sorted(opened) == sorted(arrays)
    for name, array in arrays.items():
        assert opened[name].dtype == array.dtype and (opened[name] == array).all() and opened[name].shape == array.shape
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError):
        mapped(path)
