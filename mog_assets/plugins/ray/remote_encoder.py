"""Vectors of texts that processes on other machines encode: texts and vectors travel as files of the shared folder."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, lru_cache
from pathlib import Path
from uuid import uuid4

import numpy as np

from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EncoderSettings, Hashed, with_keys
from mog_assets.resources.engine import Engine, PoolMap
from mog_assets.resources.transformer import Transformer

# Texts in a file: seconds of work for a CPU, one of the least for a GPU.
_TEXTS = 512


@lru_cache(maxsize=1)
def _encoder(settings: str) -> Encoder:
    """Return the encoder of this process, loaded once."""
    return Encoder(with_keys(EncoderSettings).model_validate_json(settings))


def encode_file(texts: str, settings: str, fingerprint: str, out: str) -> str:
    """Encode the texts of a file.

    Args:
        texts: JSON file of a list of texts.
        settings: `EncoderSettings` as JSON.
        fingerprint: Of the encoder of the process that asks.
        out: Receives the vectors, float16 of shape (texts, size), as `.npy`.

    Returns:
        `texts`.

    Raises:
        ValueError: the weights or their settings are others here.
    """
    encoder = _encoder(settings)
    if encoder.fingerprint != fingerprint:
        raise ValueError(
            f"encoder: expected the fingerprint {fingerprint}, got {encoder.fingerprint}: use the same model files on "
            "every node"
        )
    texts_of = json.loads(Path(texts).read_bytes())
    with open(out, "wb") as stream:
        np.save(stream, encoder.encode(texts_of), allow_pickle=False)
    return texts


@contextmanager
def encoded_by(engine: Engine, encoder: Encoder, texts: int) -> Iterator[None]:
    """Let what is not in the cache of an encoder be encoded by processes of a cluster.

    The cache stays with this process: SQLite cannot be written from several machines. A few texts are encoded here.

    Args:
        engine: Where it is done.
        encoder: Its `encode` changes.
        texts: As many texts as there are to come at most.
    """
    # A served model is asked from here, by whoever has the key.
    if encoder.settings.served:
        yield
        return
    with ExitStack() as opened:

        @cache
        def open_actors() -> PoolMap:
            return opened.enter_context(engine.open_pool(-(-texts // _TEXTS)))

        def encode(items: Hashed) -> Generator[Hashed]:
            if len(items) <= _TEXTS:
                return encoder.encode_here(items)
            return _through(open_actors(), engine.scratch(), encoder, items)

        encoder.elsewhere = encode
        try:
            yield
        finally:
            encoder.elsewhere = None


def _through(run_jobs: PoolMap, folder: Path, encoder: Encoder, items: Hashed) -> Generator[Hashed]:
    """Yield keys and vectors of texts, in any order, a file's worth at a time."""
    # The precision that this process would use, whatever the hardware of a node prefers.
    dtype = Transformer(encoder.settings, encoder.setting).dtype
    settings = encoder.settings.model_copy(update={"dtype": dtype}).model_dump_json()
    batch, jobs, parts = uuid4().hex, [], {}
    try:
        for first in range(0, len(items), _TEXTS):
            path, part = folder / f"{batch}-{first}.json", items[first : first + _TEXTS]
            # In ASCII: a text may hold a half of a surrogate pair, which is no UTF-8.
            path.write_text(json.dumps([text for _, text in part]), encoding="ascii")
            parts[str(path)] = part
            jobs.append({"texts": str(path), "settings": settings, "fingerprint": encoder.fingerprint})
            jobs[-1]["out"] = str(path.with_suffix(".npy"))
        for done in run_jobs("mog_assets.plugins.ray.remote_encoder:encode_file", jobs):
            vectors = np.load(Path(done).with_suffix(".npy"), allow_pickle=False)
            yield [(key, row.tobytes()) for (key, _), row in zip(parts.pop(done), vectors, strict=True)]
            Path(done).with_suffix(".npy").unlink()
            Path(done).unlink()
    finally:
        for path in folder.glob(f"{batch}-*"):
            path.unlink(missing_ok=True)
