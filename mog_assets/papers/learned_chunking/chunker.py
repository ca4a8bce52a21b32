"""The chunker `learned`."""

from __future__ import annotations

import numpy as np

from mog_assets.text.chunkers import CHUNKERS, Chunker, Options, Split
from mog_assets.text.cuts import Spans


def _make_learned(options: Options) -> Split:
    # Other chunkers do not need torch.
    from mog_assets.papers.learned_chunking.learned import opened, spans_of

    assert options.weights is not None
    scorer, model = opened(options.weights)

    def split(text: str, vectors: np.ndarray | None) -> Spans:
        assert vectors is not None
        return spans_of(text, options.finest_chars, vectors, scorer, model)

    return split


CHUNKERS.register("learned", Chunker(_make_learned, sentence_vectors=True, trained=True))
