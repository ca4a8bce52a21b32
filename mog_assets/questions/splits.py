"""Which questions train and which measure: splits of questions that name none, and what both must not share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mog_assets.questions.sets import Question
from mog_assets.resources.errors import MogError

# Names of the splits of questions that name none.
TRAIN, TEST = "train", "test"
# Of the documents, to measure on. With few questions an interval needs more of them than training does.
SHARE = 0.5


def divided(questions: Sequence[Question], parts: Sequence[str] = (TRAIN, TEST)) -> list[Question]:
    """Questions without a split are divided by document, half to train on and half to measure with.

    The part of a document depends only on its name, so that no question moves when others are added; only where all
    would be in one part, as with very few documents, they are divided in order of their hashes. Questions about a
    single document are divided one by one.

    Args:
        questions: The questions.
        parts: `TRAIN`, `TEST` or both: with one of them, all questions without a split are in it.
    """
    if len(parts) == 1:
        return [question if question.split else replace(question, split=parts[0]) for question in questions]
    without = [question for question in questions if not question.split]
    groups = {question.id: question.document for question in without}
    if len(set(groups.values())) == 1:
        groups = {question.id: question.id for question in without}
    place = {group: fraction(f"split {group}") for group in set(groups.values())}
    tested = {group for group, p in place.items() if p < SHARE}
    if len(place) > 1 and not 0 < len(tested) < len(place):
        tested = set(sorted(place, key=lambda group: (place[group], group))[: len(place) // 2])
    return [
        question if question.split else replace(question, split=TEST if groups[question.id] in tested else TRAIN)
        for question in questions
    ]


def sharing_evidence(questions: Iterable[Question], others: Iterable[Question]) -> list[Question]:
    """The questions that ask for what any of the others asks for.

    Their evidence overlaps that of the other; or, without places, all their relevant documents are relevant for the
    other, or both ask the same in the same words.
    """
    taken: dict[tuple[str, str], list[tuple[int, int]]] = {}
    texts: dict[str, bool] = {}
    needs: dict[tuple[str, str], list[set[tuple[str, str]]]] = {}
    for other in others:
        for e in other.evidence:
            taken.setdefault((e.corpus, e.doc), []).append((e.start, e.end))
        words = _words(other.question)
        texts[words] = texts.get(words, True) and bool(other.evidence)
        relevant = {document for document, grade in other.grades.items() if grade > 0}
        for document in relevant:
            needs.setdefault(document, []).append(relevant)

    def shares(question: Question) -> bool:
        if question.evidence and any(
            e.start < end and start < e.end
            for e in question.evidence
            for start, end in taken.get((e.corpus, e.doc), ())
        ):
            return True
        words = _words(question.question)
        # The same words about different places are different questions, such as "What are the symptoms?".
        if words in texts and not (question.evidence and texts[words]):
            return True
        if question.evidence:
            return False
        own = {document for document, grade in question.grades.items() if grade > 0}
        return any(own <= relevant for document in own for relevant in needs.get(document, ()))

    return [question for question in questions if shares(question)]


def _words(text: str) -> str:
    return " ".join(text.casefold().split())


def check_splits(key: str, named: Sequence[str], there: Mapping[str, int]) -> None:
    """Reject the name of a split that no question of a file has.

    Raises:
        MogError: no question has one of the splits.
    """
    if unknown := [split for split in named if split not in there]:
        counts = ", ".join(f"{split}: {n}" for split, n in sorted(there.items()))
        raise MogError(
            f"{key}: expected splits that questions of the file have ({counts}), got {unknown[0]!r}: name one of "
            "these, or add questions of that split"
        )


def unused_splits(train: Sequence[str], test: Sequence[str], there: Mapping[str, int]) -> dict[str, int]:
    """Number of questions of every split in a file that is used neither for training nor for tests."""
    return {split: n for split, n in sorted(there.items()) if split not in (*train, *test)}


def fraction(text: str) -> float:
    """A number in [0, 1) that depends only on the text."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:16], 16) / 16**16
