"""The chunker `learned`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mog_assets.chunking.chunkers import CHUNKERS, Chunker, Options, Split
from mog_assets.chunking.cuts import Spans
from mog_assets.config import ChunkerSettings
from mog_assets.papers.learned_chunking.text_encoder import FILES

# Logical name of the weights.
WEIGHTS = "chunker.safetensors"


def files(settings: ChunkerSettings) -> Sequence[str]:
    """Names of the files of the trained chunker: its weights, and the encoder that was trained with it."""
    return (WEIGHTS, *(FILES if settings.training.encoder else ()))


def _make_learned(options: Options) -> Split:
    # Other chunkers do not need torch.
    from mog_assets.papers.learned_chunking.learned import opened, spans_of

    assert options.weights is not None
    scorer, model = opened(options.weights, options.encoder)

    def split(text: str, vectors: np.ndarray | None) -> Spans:
        return spans_of(text, options.finest_chars, vectors, scorer, model)

    return split


CHUNKERS.register("learned", Chunker(_make_learned, sentence_vectors=True, trained=True, files=files))
