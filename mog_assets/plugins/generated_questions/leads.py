"""Whether a question leads back to its document."""

from __future__ import annotations

import numpy as np

from mog_assets.resources.arrays import places
from mog_assets.search.retrieval import Retrieval

# A document is found if it is among so many first ones.
DOCUMENTS = 20

RETRIEVERS = ("bm25", "dense")


def leads_back(retrieval: Retrieval, documents: np.ndarray) -> dict[str, np.ndarray]:
    """Tell whether each retriever finds the document of each question within `DOCUMENTS` at the best of its levels.

    A document ranks by its best chunk; equal scores go to the earlier document.

    Args:
        retrieval: The n questions.
        documents: Position of the document of each, shape (n,).

    Returns:
        By retriever, bool array of shape (n,).
    """
    leading = {name: np.zeros(len(documents), bool) for name in RETRIEVERS}
    candidates = retrieval.unread.candidates
    document = retrieval.corpora.layout.document_of[candidates.piece]
    for column, name in enumerate(retrieval.index.text_experts):
        retriever = name.partition("-")[0]
        scores = candidates.scores[:, column]
        if retriever not in leading:
            continue
        order = np.lexsort((document, -scores, candidates.question))
        # A chunk without any word of the question is not found by words.
        order = order[scores[order] > 0] if retriever == "bm25" else order
        keys = np.stack([candidates.question[order], document[order]], axis=1)
        _, first = np.unique(keys, axis=0, return_index=True)
        question, of = keys[np.sort(first)].T
        found = (of == documents[question]) & (places(question) < DOCUMENTS)
        leading[retriever][question[found]] = True
    return leading
