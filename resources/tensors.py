"""Self-describing safetensors files: arrays, and facts as JSON."""

from __future__ import annotations

import hashlib
import json
import math
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from mog_assets.resources.errors import MogError
from mog_assets.resources.store import Artefact

# safetensors writes metadata keys in any order, so equal contents could have different bytes: all facts are one key.
_FACTS = "mog"
# Types of numbers by their name in a file.
_KINDS = {f"{sign}{8 * size}": f"<{letter}{size}" for sign, letter in (("U", "u"), ("I", "i")) for size in (1, 2, 4, 8)}
_KINDS |= {f"F{8 * size}": f"<f{size}" for size in (2, 4, 8)}


def encode(arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> bytes:
    """Return the bytes of a file; equal contents give equal bytes."""
    return save(dict(arrays), {_FACTS: json.dumps(facts, ensure_ascii=False, sort_keys=True)})


def decode(data: bytes) -> tuple[dict[str, np.ndarray], Any]:
    """Return arrays and facts in the bytes of a file; facts are None if it has none.

    Raises:
        ValueError: it is not a safetensors file, or has types that numpy lacks.
    """
    try:
        arrays = load(data)
    # A file with types that numpy lacks raises a KeyError.
    except (SafetensorError, KeyError) as error:
        raise ValueError(str(error)) from error
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return arrays, json.loads(header.get("__metadata__", {}).get(_FACTS, "null"))


def mapped(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file, read where they are used; they cannot be changed.

    Raises:
        OSError, ValueError, LookupError, TypeError: it cannot be read, or is damaged.
    """
    with path.open("rb") as stream:
        data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    first = 8 + int.from_bytes(data[:8], "little")
    header, arrays = json.loads(data[8:first]), {}
    header.pop("__metadata__", None)
    for name, entry in header.items():
        kind, shape = _KINDS[entry["dtype"]], entry["shape"]
        count = math.prod(shape)
        flat = np.frombuffer(data, kind, count, first + entry["data_offsets"][0]) if count else np.zeros(0, kind)
        arrays[name] = flat.reshape(shape)
    return arrays


def read(stored: Artefact, name: str, what: str) -> bytes:
    """Return the bytes of a stored file, verified.

    Raises:
        MogError: it cannot be read, or a byte of it has changed.
    """
    path = stored.path(name)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise MogError(f"{what} {path}: expected a readable file ({error.strerror}): run `mog run`") from error
    wanted, got = stored.manifest.files[name]["sha256"], hashlib.sha256(data).hexdigest()
    if got != wanted:
        raise MogError(
            f"{what} {path}: expected the bytes that were stored, SHA-256 {wanted}, got {got}: run `mog run`"
        )
    return data
