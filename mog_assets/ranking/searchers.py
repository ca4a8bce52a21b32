"""Searches of parts of the corpora by other processes, whose results are put together: the same as those of one.

Every process opens the files of its own part and keeps them open. It can open any other part as well, when the process
that had it has ended.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np

from mog_assets.config import Settings
from mog_assets.ranking.section_search import Asked, Hits, SectionSearch, expert_texts
from mog_assets.resources.store import Store
from mog_assets.retrieval.corpora import Corpora
from mog_assets.retrieval.divided import Part, divided

Call = Callable[[str, Mapping[int, dict[str, Any]]], dict[int, Any]]
"""Calls a function, by `module:name`, in other processes, each with its arguments; see `ray_pool.Pool.call`."""

Made = TypeVar("Made")
# Parts, and questions, that a process keeps.
_PARTS, _QUESTIONS = 4, 256
_HERE = "mog_assets.ranking.searchers"


@dataclass(frozen=True)
class Place:
    """Where a process finds a part.

    Attributes:
        key: Stands for all but the number.
        store: Folder of the artefacts.
        settings: Of the project.
        names: The corpora.
        most, number: The part is that of this number of at most so many; see `divided`.
    """

    key: str
    store: str
    settings: Settings
    names: Sequence[str]
    most: int
    number: int

    def open(self) -> Corpora:
        """The part as corpora, numbered from 0."""
        read = Store(Path(self.store)).read
        part = divided(read, self.names, self.most)[self.number]
        return Corpora.open(part.reading(read), self.settings, self.names, keep=True)


# In the process that searches


def nearest(key: str, place: Place, questions: Sequence[Asked]) -> list[list[Hits]]:
    """`SectionSearch.nearest` of some questions in a part.

    Args:
        key: Of these questions.
        place: The part.
        questions: The questions.
    """
    return [_search(key, place, number, question).nearest() for number, question in enumerate(questions)]


def values(key: str, place: Place, number: int, question: Asked, sections: np.ndarray) -> list[np.ndarray]:
    """`SectionSearch.values` of a question in a part.

    Args:
        key: Of the questions.
        place: The part.
        number: Of the question among them; what `nearest` has computed of it is used.
        question: The question.
        sections: Numbers in the part.
    """
    return _search(key, place, number, question).values(sections)


def _search(key: str, place: Place, number: int, question: Asked) -> SectionSearch:
    where = place.key, place.number

    def made() -> SectionSearch:
        return SectionSearch(_once(_opened, where, place.open, _PARTS), question)

    return _once(_searches, (where, key, number), made, _QUESTIONS)


_opened: OrderedDict[Hashable, Corpora] = OrderedDict()
_searches: OrderedDict[Hashable, SectionSearch] = OrderedDict()


def _once(kept: OrderedDict[Hashable, Made], key: Hashable, make: Callable[[], Made], most: int) -> Made:
    if key not in kept:
        kept[key] = make()
        while len(kept) > most:
            kept.popitem(last=False)
    kept.move_to_end(key)
    return kept[key]


# In the process that asks


class Searchers:
    """Searches of corpora by other processes.

    Args:
        call: Calls a function there.
        store: Folder of the artefacts, which they see at the same path.
        corpora: All of them.
        most: Into how many parts they are divided, at most.
    """

    def __init__(self, call: Call, store: Path, corpora: Corpora, most: int) -> None:
        self.corpora, self._call = corpora, call
        self._parts = divided(corpora.read, corpora.names, most)
        place = Place(uuid4().hex, str(store), corpora.settings, corpora.names, most, 0)
        self._places = [replace(place, number=number) for number in range(len(self._parts))]
        begins = [part.documents[0] for part in self._parts]
        self._sections = np.searchsorted(corpora.sections.document, [*begins, len(corpora.layout.documents)])

    def __call__(self, questions: Sequence[Asked]) -> list[Divided]:
        """See `section_search.Searching`: all questions are searched for at once."""
        key = uuid4().hex
        of_parts = [[self._of_part(question, part) for question in questions] for part in self._parts]
        jobs = {
            part: {"key": key, "place": place, "questions": of_part}
            for part, (place, of_part) in enumerate(zip(self._places, of_parts, strict=True))
        }
        hits = self._call(f"{_HERE}:nearest", jobs)
        return [
            Divided(self, key, number, [of_part[number] for of_part in of_parts], [hits[part][number] for part in jobs])
            for number in range(len(questions))
        ]

    @staticmethod
    def _of_part(question: Asked, part: Part) -> Asked:
        allowed = None if question.allowed is None else question.allowed[slice(*part.documents)]
        return replace(question, allowed=allowed)

    def values(self, key: str, number: int, of_parts: Sequence[Asked], sections: np.ndarray) -> list[np.ndarray]:
        """See `Divided.values`."""
        ends, jobs = np.searchsorted(sections, self._sections), {}
        for part, question in enumerate(of_parts):
            local = sections[ends[part] : ends[part + 1]] - self._sections[part]
            if len(local):
                job = {"key": key, "place": self._places[part], "number": number, "question": question}
                jobs[part] = {**job, "sections": local}
        if not jobs:
            return [np.zeros(0, np.float32) for _ in expert_texts(self.corpora, sections)]
        parts = self._call(f"{_HERE}:values", jobs)
        return [np.concatenate(scores) for scores in zip(*(parts[part] for part in jobs), strict=True)]

    def joined(self, hits: Sequence[Sequence[Hits]]) -> list[Hits]:
        """The best of all parts, by words and by vectors."""
        firsts = [part.pieces[0] for part in self._parts]
        return [
            Hits.joined([replace(one, pieces=one.pieces + first) for one, first in zip(kind, firsts, strict=True)])
            for kind in zip(*hits, strict=True)
        ]


@dataclass(frozen=True)
class Divided:
    """As `section_search.Search`, from those of all parts.

    Attributes:
        searchers: Search the parts.
        key, number: Of the question, for them.
        of_parts: The question, as each part is asked.
        hits: Of each part.
    """

    searchers: Searchers
    key: str
    number: int
    of_parts: Sequence[Asked]
    hits: Sequence[Sequence[Hits]]

    def nearest(self) -> list[Hits]:
        """See `section_search.Search.nearest`."""
        return self.searchers.joined(self.hits)

    def values(self, sections: np.ndarray) -> list[np.ndarray]:
        """See `section_search.Search.values`."""
        return self.searchers.values(self.key, self.number, self.of_parts, sections)
