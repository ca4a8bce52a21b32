"""The controls, whose measured values are known in advance: random passages and gold evidence."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from mog_assets.index.corpora import Corpora
from mog_assets.questions.sets import Question
from mog_assets.resources.arrays import places
from mog_assets.search.depth import DEPTH
from mog_assets.search.passages import Passages


def random_passages(questions: Sequence[Question], corpora: Corpora) -> Passages:
    """Return the lower control: chunks drawn at random, as many as a method of one level ranks.

    They are chunks of level 2, the size that MedRAG uses (of level 1 if there is no other), drawn uniformly without
    replacement over all corpora. A question's passages depend only on the seed of the settings, its id and the corpora.
    Their score is the floor of a measure: a method that does not beat them finds nothing, or the corpora are so small
    (the longest context has 8,000 characters) that any passages contain the evidence.
    """
    level, layout = min(2, corpora.settings.levels), corpora.layout
    total = layout.count(level)
    seeds = (hashlib.sha256(f"{corpora.settings.seed}/{q.id}".encode()).digest() for q in questions)
    samples = [
        np.random.default_rng(int.from_bytes(seed)).choice(total, min(DEPTH, total), replace=False) for seed in seeds
    ]
    question = np.repeat(np.arange(len(samples)), min(DEPTH, total))
    document, start, end = layout.chunk_spans(np.array(samples, np.int64).reshape(-1), level)
    return _unsearched(question, document, start, end, level)


def gold_passages(questions: Sequence[Question], corpora: Corpora) -> Passages:
    """Return the upper control: the evidence itself, see `pieces`, one passage each.

    Where only relevant documents are known, it is their first chunks, the highest grade first.

    Its `ER`, `hit@k`, `MRR` and `nDCG@10` are 1 on any corpora. `char_recall@k` and `Recall@10` are lower if there are
    more pieces or documents than they count, and a method that finds a short piece before a long one may need fewer
    tokens to answer.
    """
    rows = []
    for number, question in enumerate(questions):
        rows += [(number, corpora.position[corpus, doc], start, end) for corpus, doc, start, end in pieces(question)]
        if not question.evidence:
            relevant = [judged for judged in question.relevant if judged.grade > 0]
            for judged in sorted(relevant, key=lambda judged: -judged.grade):
                at = corpora.position[judged.corpus, judged.doc]
                first, last = corpora.layout.offsets[at : at + 2]
                if first < last:
                    rows.append((number, at, *corpora.layout.spans[first].tolist()))
    numbers, document, start, end = np.array(rows, np.int64).reshape(-1, 4).T
    return _unsearched(numbers, document, start, end, level=0)


def _unsearched(question: np.ndarray, document: np.ndarray, start: np.ndarray, end: np.ndarray, level: int) -> Passages:
    """Return passages of one span each, in order of question and rank."""
    rank = places(question)
    return Passages(question, rank, document, start, end, np.full(len(rank), level), -rank.astype(np.float64))


def pieces(question: Question) -> list[tuple[str, str, int, int]]:
    """Return evidence as (corpus, doc, start, end), in its order; overlapping or adjacent spans are merged.

    Empty spans are left out.
    """
    merged: list[tuple[int, str, str, int, int]] = []
    spans = [(e.corpus, e.doc, e.start, e.end, order) for order, e in enumerate(question.evidence) if e.start < e.end]
    for corpus, doc, start, end, order in sorted(spans):
        if merged and merged[-1][1:3] == (corpus, doc) and start <= merged[-1][4]:
            first, _, _, begin, reached = merged[-1]
            merged[-1] = (min(first, order), corpus, doc, begin, max(reached, end))
        else:
            merged.append((order, corpus, doc, start, end))
    return [(corpus, doc, start, end) for _, corpus, doc, start, end in sorted(merged)]
