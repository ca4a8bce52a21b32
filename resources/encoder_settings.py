"""Which model encodes texts, and how: here, or at an embeddings endpoint."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from mog_assets.resources.chat import MOST_THREADS
from mog_assets.resources.settings import Count, NamedSettings

EMBEDDED = "all-MiniLM-L6-v2"

Vectors = np.ndarray  # float16, shape (n, size), rows of length 1
Role = Literal["passage", "query"]
# Keys with their texts, or with the bytes of their vectors.
Hashed = list[tuple[bytes, Any]]


def _address(value: str) -> str:
    try:
        url = urlsplit(value)
        valid = url.scheme in ("http", "https") and url.hostname and not url.username and not url.query
    except ValueError:
        valid = False
    if not valid:
        raise ValueError("a URL such as http://localhost:8080/v1, without a key in it")
    return value.rstrip("/")


class EmbeddingsSettings(NamedSettings):
    """An embeddings endpoint, in the form of `openai` (also TEI, vLLM, Ollama, llama.cpp), `cohere` or `voyage`.

    The key is read from OPENAI_API_KEY, COHERE_API_KEY or VOYAGE_API_KEY; a `url` of your own needs none. A request has
    texts of about `batch_tokens` tokens; `timeout` is of one attempt, in seconds. `price` is USD per million tokens; a
    run that has spent `budget_usd` sends no more requests.
    """

    main: ClassVar[str] = "form"

    form: Literal["openai", "cohere", "voyage"] = "openai"
    # None: that of the provider, for `openai` the value of OPENAI_BASE_URL if that is set.
    url: Annotated[str, AfterValidator(_address)] | None = None
    batch_tokens: Count = 20_000
    concurrency: Annotated[int, Field(ge=1, le=MOST_THREADS)] = 4
    timeout: float = Field(60.0, gt=0, le=86_400)
    attempts: Count = 5
    price: float = Field(0.0, ge=0)
    budget_usd: float | None = Field(None, ge=0)

    @model_validator(mode="after")
    def _priced(self) -> EmbeddingsSettings:
        if self.budget_usd is not None and not self.price:
            raise ValueError("price above 0 with budget_usd, otherwise the cost is not known")
        return self


class EncoderSettings(NamedSettings):
    """Sentence encoder: the embedded `all-MiniLM-L6-v2`, a Hugging Face model id, or a local folder.

    With an `endpoint`, it is a model that is served elsewhere. A vector is the mean of the tokens' vectors, or that of
    the first token (`cls`). `query_prompt` and `passage_prompt` are put before questions and passages, as models such
    as E5 expect; `dimensions` keeps the first ones of each vector, which some models are trained for. `query_model`
    encodes questions if they need a separate model, as with MedCPT.
    """

    main: ClassVar[str] = "model"

    # The paper's encoder is FacebookAI/roberta-base; the embedded one needs no download.
    model: Annotated[str, Field(min_length=1)] = EMBEDDED
    endpoint: EmbeddingsSettings | None = None
    query_model: str | None = None
    query_prompt: str = ""
    passage_prompt: str = ""
    dimensions: Count | None = None
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

    def prompt(self, role: Role) -> str:
        """What is put before a text."""
        return self.query_prompt if role == "query" else self.passage_prompt
