"""Cross-encoders that are loaded here.

A text is read at a time, so that its score depends on nothing else. Of published code that comes with a model nothing
is run, and weights are read from safetensors.

References: Nogueira and Cho 2019 (passage re-ranking with BERT).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import cached_property

import numpy as np

from mog_assets.plugins.models.reranker_settings import RerankerSettings, RerankRequest
from mog_assets.resources import extras
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import digest

# How the name of an architecture ends that was trained to score pairs: others get random weights.
_TRAINED = "ForSequenceClassification"


class CrossEncoder:
    """Reads question and text together: the logistic function of the one output, or the share of the last of two.

    The model is in a folder, or from the hub of Hugging Face; it is loaded when it first reads.
    """

    def __init__(self, settings: RerankerSettings) -> None:
        self.settings = settings

    @cached_property
    def fingerprint(self) -> str:
        """Changes with the files of a folder, or the commit of a hub model, and with length."""
        # Here, because it imports transformers where a model is downloaded.
        from mog_assets.resources.transformer import model_files

        files = model_files(self.settings.model, "reranker.model")
        return digest("cross-encoder", files, self.settings.max_length)[:16]

    @property
    def description(self) -> str:
        """Return where and how it reads, for people."""
        return f"{self.settings.model} on {self._loaded[1]}"

    def scores(self, readings: Sequence[RerankRequest]) -> Generator[tuple[int, np.ndarray]]:
        """See `reranker_settings.Model.scores`."""
        if not readings:
            return
        import torch

        score = self._loaded[0]
        for number, reading in enumerate(readings):
            with torch.inference_mode():
                scores = [score(reading.question, text) for text in reading.texts]
            yield number, np.clip(np.array(scores, np.float32), 0, 1)

    @cached_property
    def _loaded(self) -> tuple[Callable[[str, str], float], str]:
        """The score of a question and a text, from 0 to 1, and the device."""
        with extras.needed(f"reranker.model: {self.settings.model}"):
            import torch
            import transformers

        source, device = self.settings.model, self.settings.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        transformers.utils.logging.disable_progress_bar()
        try:
            names = transformers.AutoConfig.from_pretrained(source, trust_remote_code=False).architectures or []
            if not any(str(name).endswith(_TRAINED) for name in names):
                raise ValueError(f"its files name {', '.join(map(str, names)) or 'no architecture'}")
            tokenizer = transformers.AutoTokenizer.from_pretrained(source)
            model = transformers.AutoModelForSequenceClassification.from_pretrained(
                source, use_safetensors=True, trust_remote_code=False
            )
            if model.config.num_labels > 2:
                raise ValueError(f"its model has {model.config.num_labels} outputs where 1 or 2 are expected")
        # transformers raises whatever its many loaders raise; the message below includes it.
        except Exception as error:
            raise MogError(
                "reranker.model: expected a cross-encoder, with config.json, tokenizer.json and model.safetensors: a "
                f"Hugging Face id that can be downloaded, or a local folder; {source!r} does not load "
                f"({' '.join(str(error).split())[:300]})"
            ) from error
        model.eval().to(device)

        def score(question: str, text: str) -> float:
            length = self.settings.max_length
            pair = tokenizer(question, text, truncation=True, max_length=length, return_tensors="pt").to(device)
            logits = model(**pair).logits[0].float()
            return float(torch.sigmoid(logits[0]) if len(logits) == 1 else torch.softmax(logits, 0)[-1])

        return score, device
