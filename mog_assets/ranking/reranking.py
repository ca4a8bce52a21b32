"""Rerankers: experts that read a question together with the texts of its best pieces, such as cross-encoders.

Such an expert is weighed like every other: by trained rankings as they learn, by `fused` as its `weight` says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mog_assets.ranking.candidates import Candidates
from mog_assets.ranking.relations import FurtherExpert, Queries, best
from mog_assets.resources.errors import MogError
from mog_assets.retrieval.corpora import Corpora

# Given a question and texts, a score of each: 0 or more, more is better.
Scores = Callable[[str, Sequence[str]], np.ndarray]
# Pieces of a question that are read.
PIECES = 20


@dataclass(frozen=True)
class Reranker:
    """Scores the best pieces of a question by their texts; see `relations.Relation`.

    Attributes:
        name: Of the expert.
        corpora: Those that are searched.
        read: Scores texts.
        pieces: How many are read; all others score 0.
    """

    name: str
    corpora: Corpora
    read: Scores
    pieces: int

    def scores(self, candidates: Candidates, value: np.ndarray, queries: Queries) -> np.ndarray:
        """See `relations.Relation.scores`; a text is the title of the document and the piece.

        Raises:
            MogError: the reranker does not give a number of 0 or more for each text.
        """
        top, layout = best(candidates, value, self.pieces), self.corpora.layout
        documents, spans = layout.document_of[candidates.piece[top]], layout.spans[candidates.piece[top]]
        texts = self.corpora.texts(np.unique(documents).tolist())
        scores = np.zeros(len(candidates.piece), np.float32)
        for question in np.unique(candidates.question[top]).tolist():
            rows = np.flatnonzero(candidates.question[top] == question)
            passages = []
            for document, (start, end) in zip(documents[rows].tolist(), spans[rows].tolist(), strict=True):
                title, text = texts[document]
                passages.append(f"{title}\n{text[start:end]}" if title else text[start:end])
            given = np.asarray(self.read(queries.texts[question], passages), np.float32)
            if given.shape != (len(passages),) or not np.isfinite(given).all() or (given < 0).any():
                raise MogError(
                    f"ranking.experts: expected {self.name!r} to give a number of 0 or more for each of "
                    f"{len(passages)} texts, got an array of shape {given.shape} from {given.min(initial=0)}: mend it, "
                    "or leave it out"
                )
            scores[top[rows]] = given
        return scores


def reranking(
    name: str, read: Scores, pieces: int = PIECES, weight: float = 2.0, said: str = "", version: str = "1"
) -> FurtherExpert:
    """A reranker as an expert, to be registered under its name.

    Args:
        name: Of the expert.
        read: Scores texts for a question.
        pieces: How many of the best pieces of a question are read.
        weight: In `fused`, beside 1 for BM25 and 2 for vectors.
        said: What `--explain` says of a passage that it raised.
        version: Raised when it gives other scores for the same.
    """
    return FurtherExpert(
        lambda retrieval: Reranker(name, retrieval.corpora, read, pieces), weight=weight, said=said, version=version
    )
