"""Rerankers that are loaded here: cross-encoders, late interaction and learned sparse vectors.

A text is read at a time, so that its score depends on nothing else. Of published code that comes with a model nothing
is run, and weights are read from safetensors.

References: Nogueira and Cho 2019 (passage re-ranking with BERT); Khattab and Zaharia 2020 (ColBERT, section 3.1);
Formal et al. 2021 (SPLADE, section 3.1).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.resources import extras
from mog_assets.resources.errors import MogError
from mog_assets.resources.reranker_settings import Model, Reading, RerankerSettings
from mog_assets.resources.store import digest

Score = Callable[[str, Sequence[str]], list[float]]
"""Given a question and texts, how well each answers it, from 0 to 1."""


class Local(ABC):
    """A model in a folder, or from the hub of Hugging Face; it is loaded when it first reads."""

    expected: str
    """What its files are, for errors."""
    trained: tuple[str, ...]
    """How the names of its architecture, or of its class in sentence-transformers, end: others get random weights."""

    def __init__(self, settings: RerankerSettings) -> None:
        self.settings = settings

    @abstractmethod
    def load(self, source: str, device: str) -> Score:
        """What scores texts; `device` is that of torch."""

    @cached_property
    def fingerprint(self) -> str:
        """Changes with the files of a folder, or the commit of a hub model, and with kind and length."""
        # Here, because it imports transformers where a model is downloaded.
        from mog_assets.resources.transformer import model_files

        files = model_files(self.settings.model, "reranker.model", self.settings.kind != "cross-encoder")
        return digest(self.settings.kind, files, self.settings.max_length)[:16]

    @property
    def said(self) -> str:
        """Where and how it reads, for people."""
        return f"{self.settings.model} ({self.settings.kind}) on {self._loaded[1]}"

    def scores(self, readings: Sequence[Reading]) -> Generator[tuple[int, np.ndarray]]:
        """See `reranker_settings.Model.scores`."""
        if not readings:
            return
        import torch

        score = self._loaded[0]
        for number, reading in enumerate(readings):
            with torch.inference_mode():
                scores = score(reading.question, reading.texts)
            yield number, np.clip(np.array(scores, np.float32), 0, 1)

    @cached_property
    def _loaded(self) -> tuple[Score, str]:
        with extras.needed(f"reranker.model: {self.settings.model}"):
            import torch
            import transformers

        device = self.settings.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        transformers.utils.logging.disable_progress_bar()
        try:
            names = _architectures(self.settings.model)
            if not any(name.endswith(self.trained) for name in names):
                raise ValueError(f"its files name {', '.join(names) or 'no architecture'}")
            return self.load(self.settings.model, device), device
        # transformers raises whatever its many loaders raise; the message below includes it.
        except Exception as error:
            raise MogError(
                f"reranker.model: expected {self.expected}: a Hugging Face id that can be downloaded, or a local "
                f"folder; {self.settings.model!r} does not load ({' '.join(str(error).split())[:300]}); "
                f"`reranker.kind` is {self.settings.kind!r}, and may be one of: {', '.join(KINDS)}"
            ) from error


class CrossEncoder(Local):
    """Question and text are read together: the logistic function of the one output, or the share of the last of two."""

    expected = "a cross-encoder, with config.json, tokenizer.json and model.safetensors"
    trained = ("ForSequenceClassification",)

    def load(self, source: str, device: str) -> Score:
        """See `Local.load`."""
        import torch
        import transformers

        tokenizer = transformers.AutoTokenizer.from_pretrained(source)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            source, use_safetensors=True, trust_remote_code=False
        )
        if model.config.num_labels > 2:
            raise ValueError(f"its model has {model.config.num_labels} outputs where 1 or 2 are expected")
        model.eval().to(device)

        def score(question: str, text: str) -> float:
            length = self.settings.max_length
            pair = tokenizer(question, text, truncation=True, max_length=length, return_tensors="pt").to(device)
            logits = model(**pair).logits[0].float()
            return float(torch.sigmoid(logits[0]) if len(logits) == 1 else torch.softmax(logits, 0)[-1])

        return lambda question, texts: [score(question, text) for text in texts]


class LateInteraction(Local):
    """Question and text are read apart: the mean, over tokens of the question, of the cosine with the nearest token."""

    expected = "a late interaction model (ColBERT), as sentence-transformers, PyLate or Stanford's code save it"
    trained = ("MultiVectorEncoder", "ColBERT", "ForRetrieval")

    def load(self, source: str, device: str) -> Score:
        """See `Local.load`."""
        from sentence_transformers import MultiVectorEncoder

        model = MultiVectorEncoder(source, **_options(device))
        _shorten(model, self.settings.max_length)

        def score(question: str, texts: Sequence[str]) -> list[float]:
            tokens = _rows(model.encode_query([question], show_progress_bar=False)[0])
            of_texts = (_rows(model.encode_document([text], show_progress_bar=False)[0]) for text in texts)
            return [float((tokens @ other.T).max(1).mean()) if other.size else 0.0 for other in of_texts]

        return score


class Sparse(Local):
    """Question and text are read apart: the product of their weights of words, s, as s / (1 + s)."""

    expected = "a learned sparse model (SPLADE), as sentence-transformers saves it, or a masked language model"
    trained = ("SparseEncoder", "ForMaskedLM")

    def load(self, source: str, device: str) -> Score:
        """See `Local.load`."""
        from sentence_transformers import SparseEncoder

        model = SparseEncoder(source, **_options(device))
        _shorten(model, self.settings.max_length)

        def score(question: str, texts: Sequence[str]) -> list[float]:
            words = model.encode_query([question], show_progress_bar=False).to_dense()[0]
            of_texts = (model.encode_document([text], show_progress_bar=False).to_dense()[0] for text in texts)
            products = [max(float(words @ other), 0.0) for other in of_texts]
            return [product / (1 + product) for product in products]

        return score


def _architectures(source: str) -> list[str]:
    """What a model's files say it is."""
    import transformers
    from sentence_transformers.util import load_file_path

    named = transformers.AutoConfig.from_pretrained(source, trust_remote_code=False).architectures or []
    path = load_file_path(source, "config_sentence_transformers.json")
    saved = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    return [*map(str, named), *([str(saved["model_type"])] if saved.get("model_type") else [])]


def _options(device: str) -> dict[str, Any]:
    return {"device": device, "trust_remote_code": False, "model_kwargs": {"use_safetensors": True}}


def _shorten(model: Any, length: int) -> None:
    model.max_seq_length = min(model.max_seq_length or length, length)


def _rows(vectors: Any) -> np.ndarray:
    """Vectors of tokens with length 1, float32 of shape (tokens, size)."""
    rows = np.asarray(vectors.cpu() if hasattr(vectors, "cpu") else vectors, np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


KINDS: Mapping[str, Callable[[RerankerSettings], Model]] = {
    "cross-encoder": CrossEncoder,
    "late-interaction": LateInteraction,
    "sparse": Sparse,
}
