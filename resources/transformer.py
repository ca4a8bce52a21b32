"""Vectors of texts by a transformer that torch computes here: the embedded encoder, or what `transformers` loads."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.resources import extras
from mog_assets.resources.embedded import (
    WEIGHTS_SHA256,
    FewTexts,
    KnownWords,
    WordPieces,
    checked_digest,
    embedded_folder,
)
from mog_assets.resources.encoder_settings import (
    EMBEDDED,
    EncoderFamily,
    EncoderSettings,
    Hashed,
    Role,
    Vectors,
    family,
)
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import digest

# Of Linux: what the processor can do.
_CPU = Path("/proc/cpuinfo")
# Files below /dev without which there is no GPU: of drivers, of boards, of Windows below Linux, and of AMD.
_GPUS = ("nvidia*", "nvhost*", "dxg", "kfd")
# Part of every fingerprint: changed when the same settings and files give other vectors.
_COMPUTATION = "a text at a time"
# On a GPU: tokens per group, and the step to which text lengths are rounded up.
_GROUP_TOKENS, _STEP = 8192, 32
# On a CPU: most texts and tokens that go through a layer before the next one. More gain nothing.
_ALONE_TEXTS, _ALONE_TOKENS = 16, 512
# Texts of documents up to which importing torch takes longer than it saves.
WITHOUT_TORCH = 32
_SMALL = ["config.json", "config_sentence_transformers.json", "1_Pooling/config.json"]


@dataclass(frozen=True)
class Loaded:
    """A model and its tokenizer, and how many tokens of a text they read."""

    tokenizer: Any
    model: Any
    device: str
    dtype: str
    max_length: int


@dataclass(frozen=True)
class _Group:
    """Texts, by position, that are encoded in a batch of `rows` times `length` tokens; each alone if there are none.

    A row of a batch is always empty: attention over a batch without any padding takes other ways, and is rounded
    differently.
    """

    texts: Sequence[int]
    rows: int
    length: int


def _groups(lengths: Sequence[int], device: str, threads: int = 1) -> Iterator[_Group]:
    """Yield groups of texts of these lengths in tokens; the shape of a text's batch depends only on its own length."""
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    if device == "cpu":
        yield from (_Group([i], 1, 1) for i in order if not lengths[i])
        yield from _alone([i for i in order if lengths[i]], lengths, threads)
        return
    for length, texts in groupby(order, key=lambda i: -(-max(lengths[i], 1) // _STEP) * _STEP):
        texts_of_length, rows = list(texts), max(_GROUP_TOKENS // length, 2)
        full = rows - 1
        yield from (
            _Group(texts_of_length[start : start + full], rows, length)
            for start in range(0, len(texts_of_length), full)
        )


def _alone(order: Sequence[int], lengths: Sequence[int], threads: int) -> Iterator[_Group]:
    # Few texts are divided among the threads.
    most = min(-(-len(order) // threads), _ALONE_TEXTS)
    group: list[int] = []
    for i in order:
        if group and (len(group) == most or sum(lengths[j] for j in group) + lengths[i] > _ALONE_TOKENS):
            yield _Group(group, 0, 0)
            group = []
        group.append(i)
    if group:
        yield _Group(group, 0, 0)


class Transformer:
    """Computes unit vectors of float16; the model is loaded when the first text comes.

    Args:
        settings: Model, pooling, device, precision, `max_length` in tokens (longer texts are truncated).
        setting: Names the model in errors.
    """

    by_role = False

    def __init__(self, settings: EncoderSettings, setting: str) -> None:
        self.settings, self.setting = settings, setting

    @cached_property
    def identity(self) -> list[Any]:
        """Shows without reading weights whether vectors may have changed: files of a local folder."""
        folder = Path(self.settings.model).expanduser()
        files = sorted(folder.iterdir()) if folder.is_dir() else []
        return [[[f.name, f.stat().st_size, f.stat().st_mtime_ns] for f in files], _COMPUTATION]

    @cached_property
    def fingerprint(self) -> str:
        """Changes with everything that changes a vector: weights, tokenizer, pooling, length, dtype; not the device."""
        identity = model_files(str(self._local_folder() or self.settings.model), self.setting)
        return digest(_COMPUTATION, self._pooling, identity, self.settings.max_length, self.dtype)[:16]

    @cached_property
    def dtype(self) -> str:
        """`bfloat16` if the hardware supports it natively (and nothing else is set), else `float32`."""
        if self.settings.dtype != "auto":
            return self.settings.dtype
        if self.device == "cpu" and _CPU.exists():
            # What torch says of it, which takes a second to import.
            return "bfloat16" if " avx512_bf16" in _CPU.read_text(encoding="utf-8") else "float32"
        import torch

        if self.device == "cuda":
            return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
        return "bfloat16" if torch.cpu._is_avx512_bf16_supported() else "float32"

    @cached_property
    def device(self) -> str:
        """`cuda` or `cpu`."""
        if self.settings.device != "cuda" and _CPU.exists() and not any(map(any, map(Path("/dev").glob, _GPUS))):
            return "cpu"
        import torch

        if self.settings.device == "cuda" and not torch.cuda.is_available():
            raise MogError(
                "encoder.device: expected a CUDA device, found none: install a CUDA build of torch or set `cpu`"
            )
        if self.settings.device == "auto":
            return "cuda" if torch.cuda.is_available() else "cpu"
        return self.settings.device

    @cached_property
    def _family(self) -> EncoderFamily:
        folder = self._local_folder()
        return family(self.settings.model, hub_files(self.settings.model, self.setting) if folder is None else folder)

    @property
    def _pooling(self) -> str:
        return self._family.pooling if self.settings.pooling == "auto" else self.settings.pooling

    def prompt(self, role: Role) -> str:
        """Return what is put before a text."""
        chosen = self.settings.prompt(role)
        if chosen is not None:
            return chosen
        return self._family.query if role == "query" else self._family.passage

    @property
    def description(self) -> str:
        """Return where and how it computes, for people."""
        return f"{self.settings.model} on {self.device}, {self.dtype}"

    @cached_property
    def size(self) -> int:
        """Size of a vector."""
        return int(self._loaded.model.config.hidden_size)

    @cached_property
    def is_token(self) -> Callable[[Sequence[str]], np.ndarray]:
        """Tells which words the tokenizer has as one token that is not the unknown one."""
        return KnownWords(lambda: self._tokenizer, self.settings.max_length)

    def vectors(self, items: Hashed, role: Role) -> Generator[Hashed]:
        """Yield keys and vectors of texts, a few seconds' worth at a time.

        A vector must depend on its text alone, to the byte; otherwise an updated project would differ from a rebuilt
        one. The rounding of a matrix product depends on its shape and on the number of threads that share it. So a text
        always gets the same shapes, whatever else is encoded: on a CPU each text is encoded alone, without padding, by
        one thread, with several such threads (as fast as batches); on a GPU, in a group of fixed length and size.
        """
        if not items:
            return
        import torch

        loaded, prompt = self._loaded, self.prompt(role)
        tokens = loaded.tokenizer(
            [prompt + text for _, text in items],
            truncation=True,
            max_length=loaded.max_length,
            return_attention_mask=False,
            return_token_type_ids=False,
        )["input_ids"]
        threads = torch.get_num_threads() if loaded.device == "cpu" else 1
        groups = list(_groups([len(row) for row in tokens], loaded.device, threads))

        def unit_vectors(group: _Group) -> Vectors:
            return self._group_vectors([tokens[i] for i in group.texts], group.rows, group.length)

        pending, committed = [], time.monotonic()
        with ExitStack() as leaving:
            # The number of threads set in the pool is also the default for later threads.
            leaving.callback(torch.set_num_threads, torch.get_num_threads())
            if len(groups) > 1:
                pool = ThreadPoolExecutor(min(threads, len(groups)), initializer=torch.set_num_threads, initargs=(1,))
                leaving.callback(pool.shutdown, cancel_futures=True)
                done = pool.map(unit_vectors, groups)
            else:
                # One question at a time: starting a thread takes a fifth of the time.
                if loaded.device == "cpu":
                    torch.set_num_threads(1)
                done = map(unit_vectors, groups)
            for group, unit in zip(groups, done, strict=True):
                pending += [(items[i][0], row.tobytes()) for i, row in zip(group.texts, unit, strict=True)]
                # A kill loses at most a few seconds of encoding.
                if time.monotonic() - committed > 2:
                    yield pending
                    pending, committed = [], time.monotonic()
        if pending:
            yield pending

    def _group_vectors(self, tokens: Sequence[Sequence[int]], rows: int, length: int) -> Vectors:
        """Return vectors of tokenised texts, in a batch of `rows` times `length` tokens; without rows each alone."""
        import torch

        with torch.inference_mode():
            pooled = self._batch(tokens, rows, length) if rows else torch.cat(self._each(tokens))
            unit = torch.nn.functional.normalize(pooled[:, : self.settings.dimensions], dim=1).half().cpu().numpy()
        return unit[: len(tokens)]

    def _batch(self, tokens: Sequence[Sequence[int]], rows: int, length: int) -> Any:
        """Return pooled hidden states of texts that are padded to one length: float tensor of shape (rows, size)."""
        import torch

        loaded = self._loaded
        sizes = np.array([len(row) for row in tokens] + [0] * (rows - len(tokens)))
        present = np.arange(length) < sizes[:, None]
        padded = np.full((rows, length), getattr(loaded.tokenizer, "pad_token_id", None) or 0, np.int64)
        padded[present] = np.fromiter(chain.from_iterable(tokens), np.int64, int(sizes.sum()))
        # Attention over no tokens is undefined.
        present[len(tokens) :, 0] = True
        ids, mask = (torch.from_numpy(array.astype(np.int64)).to(loaded.device) for array in (padded, present))
        hidden = loaded.model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        if self._pooling == "cls":
            return hidden[:, 0]
        if self._pooling == "last":
            return hidden[torch.arange(rows, device=hidden.device), mask.sum(1) - 1]
        return (hidden * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)

    def _each(self, tokens: Sequence[Sequence[int]]) -> list[Any]:
        """Return pooled hidden states of texts without padding: float tensors of shape (1, size)."""
        import torch

        model = self._loaded.model
        texts = [torch.tensor([row], device=self._loaded.device) for row in tokens]
        if hasattr(model, "alone"):
            hidden = model.alone(texts)
        else:
            hidden = [model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state for ids in texts]
        if self._pooling != "mean":
            return [each.float()[:, 0 if self._pooling == "cls" else -1] for each in hidden]
        return [each.float().sum(1) / each.shape[1] for each in hidden]

    @cached_property
    def _loaded(self) -> Loaded:
        with extras.needed(f"{self.setting}: {self.settings.model}"):
            import torch
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
        return Loaded(tokenizer, model, self.device, self.dtype, min(self.settings.max_length, usable))

    @cached_property
    def _tokenizer(self) -> Any:
        return self._loaded.tokenizer

    @cached_property
    def source(self) -> str:
        """The folder or model id that `transformers` loads."""
        return str(self._local_folder() or self.settings.model)

    def _local_folder(self) -> Path | None:
        folder = Path(self.settings.model).expanduser()
        return folder.resolve() if folder.is_dir() else None


class Embedded(Transformer):
    """The embedded encoder: few texts are encoded without torch where nothing has imported it."""

    @cached_property
    def identity(self) -> list[Any]:
        """The weights."""
        return [WEIGHTS_SHA256, _COMPUTATION]

    @cached_property
    def few(self) -> FewTexts:
        """Encodes few texts without torch."""
        settings = self.settings
        return FewTexts(Path(self.source), self.dtype, settings.max_length, self._pooling, settings.dimensions)

    def without_torch(self, role: Role) -> Callable[[Sequence[str]], Vectors] | None:
        """Return what encodes texts that nothing is stored of; None where a GPU does."""
        return partial(self.few.prompted, self.prompt(role)) if self.device == "cpu" else None

    @property
    def is_token(self) -> KnownWords:
        """Tells which words are one token."""
        return self.few.is_token

    @property
    def size(self) -> int:
        """Size of a vector."""
        return self.few.network.size

    def vectors(self, items: Hashed, role: Role) -> Generator[Hashed]:
        """Do as `Transformer.vectors`; in float32, few texts are the same to 1e-4 if torch is not there yet."""
        if len(items) > WITHOUT_TORCH or self.dtype != "float32" or "torch" in sys.modules:
            yield from super().vectors(items, role)
        elif items:
            prompt = self.prompt(role)
            vectors = self.few([prompt + text for _, text in items])
            yield [(key, row.tobytes()) for (key, _), row in zip(items, vectors, strict=True)]

    @cached_property
    def _loaded(self) -> Loaded:
        import torch

        # Here, because it imports torch.
        from mog_assets.resources.bert import Bert

        model = Bert(Path(self.source), getattr(torch, self.dtype), self.device)
        length = min(self.settings.max_length, model.config.max_position_embeddings)
        return Loaded(self._tokenizer, model, self.device, self.dtype, length)

    @cached_property
    def _tokenizer(self) -> WordPieces:
        return self.few.tokenizer

    def _local_folder(self) -> Path:
        return embedded_folder(self.setting)


def model_files(model: str, setting: str) -> list[Any]:
    """Return the files of a local folder with their digests, or a hub model with its commit."""
    folder = Path(model).expanduser()
    if not folder.is_dir():
        return [model, hub_files(model, setting).name]
    names = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt")
    return [[name, checked_digest(folder / name)] for name in names if (folder / name).is_file()]


@cache
def hub_files(model: str, setting: str) -> Path:
    """Return folder of a hub model's small files; its name is the commit, so that an updated model has another one."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(model, allow_patterns=_SMALL))
    # huggingface_hub raises several unrelated classes for "not there" and "no network".
    except Exception as error:
        offline = " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE") else ""
        raise MogError(
            f"{setting}: expected {EMBEDDED!r}, a Hugging Face model id that can be downloaded, or a local folder; "
            f"got {model!r}, which is not a local folder and cannot be downloaded{offline} "
            f"({' '.join(str(error).split())[:200]})"
        ) from error
