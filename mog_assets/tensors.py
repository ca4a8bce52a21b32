"""Self-describing safetensors files: arrays, and facts as JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from mog_assets.resources.errors import MogError
from mog_assets.resources.store import Artefact

# safetensors writes metadata keys in any order, so equal contents could have different bytes: all facts are one key.
_FACTS = "mog"


def encode(arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> bytes:
    """The bytes of a file; equal contents give equal bytes."""
    return save(dict(arrays), {_FACTS: json.dumps(facts, ensure_ascii=False, sort_keys=True)})


def decode(data: bytes) -> tuple[dict[str, np.ndarray], Any]:
    """Arrays and facts in the bytes of a file; facts are None if it has none.

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


def read(stored: Artefact, name: str, what: str) -> bytes:
    """The bytes of a stored file, verified.

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
