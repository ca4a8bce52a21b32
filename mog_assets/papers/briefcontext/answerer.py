"""The way of answering `briefcontext`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from mog_assets.answer.answerers import WAYS, AnswerTable, Means, Progress, Way, search, start
from mog_assets.answer.roles import AnswerRequest, RetrievedPassage
from mog_assets.answer.rows import AnswerRow
from mog_assets.papers.briefcontext.preflight import THRESHOLD, TOP, Rerank, another, overlap
from mog_assets.papers.briefcontext.roles import EXTRACT, REDUCE

if TYPE_CHECKING:
    import pandas as pd

    from mog_assets.questions.sets import Question

BRIEF_K = 16
PARTITIONS = 4


def briefcontext(
    questions: Sequence[AnswerRequest],
    means: Means,
    k: int = BRIEF_K,
    partitions: int = PARTITIONS,
    preflight: bool = True,
    limit: str = "",
    rerank: Rerank | None = None,
) -> list[AnswerRow]:
    """Answer by map-reduce over partitions if two rankings disagree on the top (BriefContext, section 5.2).

    A partition whose extraction fails is left out and recorded; if every extraction fails, the question has no answer.
    If no partition has relevant information, the reader answers without extractions.

    Args:
        questions: The questions to answer.
        means: Reader and retrieval.
        k: Number of passages.
        partitions: Number of partitions: contiguous, in retrieval order, with sizes that differ by at most one.
        preflight: Whether to run the preflight check; without it, the map-reduce always runs.
        limit: See `answerers.Retrieve`.
        rerank: The second ranking; if None, one of another kind than the retrieval.
    """
    active = start(questions)
    search(active, means, k, limit)
    rerank = rerank or another(means.retriever, means.encode)
    for progress in active:
        order = rerank(progress.query, progress.results.passages)
        iou = overlap(range(len(order)), order, TOP)
        reduces = bool(progress.results.passages) and (not preflight or iou <= THRESHOLD)
        progress.details |= {"preflight": {"iou": iou, "map_reduce": reduces}, "extractions": None}
    brief = [p for p in active if p.details["preflight"]["map_reduce"]]
    direct = [p for p in active if not p.details["preflight"]["map_reduce"]]
    parts = [(p, part) for p in brief for part in split(p.results.passages, partitions)]
    replies = means.each(lambda part: means.roles.play(EXTRACT, part[0].request, part[1]), parts)
    for progress in brief:
        values = [
            progress.take("extract", reply)
            for (owner, _), reply in zip(parts, replies, strict=True)
            if owner is progress
        ]
        progress.details["extractions"] = [value for value in values if value is not None]
        if not progress.details["extractions"]:
            progress.failure = "extract: no partition could be read: " + progress.failures[0]["reason"]

    def conclude(p: Progress) -> None:
        extractions = p.details["extractions"]
        if extractions is None:
            p.take_answer("answer", means.roles.answer(p.request, p.results.passages))
        else:
            p.take_answer("reduce", means.roles.play(REDUCE, p.request, [text for text in extractions if text]))

    means.each(conclude, [*direct, *(p for p in brief if not p.failure)])
    return [p.row("briefcontext", means.roles) for p in active]


def split(passages: Sequence[RetrievedPassage], parts: int) -> list[Sequence[RetrievedPassage]]:
    """Return contiguous parts with sizes that differ by at most one; fewer parts if there are fewer passages."""
    parts = min(parts, len(passages))
    cuts = [len(passages) * i // parts for i in range(parts + 1)]
    return [passages[a:b] for a, b in pairwise(cuts)]


def _report(row: Mapping[str, Any], rounds: list[str]) -> list[str]:
    """See `answerers.Way.tell`: what the preflight found."""
    preflight = row["preflight"]
    way = "map-reduce" if preflight["map_reduce"] else "one prompt"
    return [f"preflight: overlap {preflight['iou']:.2f}, {way}", *rounds]


# Whether the map-reduce ran, and after what overlap; the extraction of each partition, empty if it had nothing
# relevant, or None if no map-reduce ran.
_DETAILS = {"preflight": None, "extractions": None}


def _quality(answers: pd.DataFrame, questions: Mapping[str, Sequence[Question]]) -> list[dict[str, Any]]:
    from mog_assets.papers.briefcontext.preflight_quality import preflight_cases, preflight_quality

    return preflight_quality(preflight_cases(answers, questions))


_QUALITY = AnswerTable(
    "preflight",
    "preflight of BriefContext",
    "How well it predicts that the key document is ranked below the top.",
    _quality,
)

WAYS.register(
    "briefcontext", Way(briefcontext, roles=(EXTRACT, REDUCE), details=_DETAILS, tell=_report, table=_QUALITY)
)
