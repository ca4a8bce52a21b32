"""What rankings depend on, so that those that no change touches are kept: texts, and how good a new one must be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from mog_assets import tensors
from mog_assets.arrays import pairs, places, unpaired
from mog_assets.graph.packed import differences, load_columns, save_columns, sums
from mog_assets.ranking.known import rare_words
from mog_assets.ranking.retrieve import Retrieval
from mog_assets.retrieval.changes import SLACK, Texts, multiplied, scored
from mog_assets.retrieval.methods import AUTO, DEPTH, NAMED, Method
from mog_assets.retrieval.search import Hits

Family = Literal["rankings", "levels", "graph"]
FAMILIES: tuple[Family, ...] = ("rankings", "levels", "graph")


def family_of(method: Method, across: str) -> Family | None:
    """Methods that rank what the same searches find; None for those that are always ranked again.

    Args:
        method: The method.
        across: Setting `graph.across`: a graph over all corpora has no statistics that are held.
    """
    # What `auto` stands for can change. An edit changes neighbourhoods around candidates of nearly every question.
    if method.control or method.kind in (AUTO, *NAMED) or (method.graph and across != "corpus"):
        return None
    return "rankings" if method.ranking else "graph" if method.graph else "levels"


class Search(NamedTuple):
    """A search that new texts may be found by: of all texts of a granularity, or within the question's topic."""

    retriever: Literal["bm25", "dense"]
    granularity: int
    topics: bool = False


@dataclass(frozen=True)
class Reach:
    """What the rankings of some questions depend on.

    Attributes:
        digests: Of all that is known of each question.
        texts: By granularity the texts that they were made of, as `arrays.pairs` of question and text, ascending. One
            piece stands for all of a document where rankings are of levels.
        floors: By search, float32 of shape (questions, corpora), or (questions, 1) for all corpora: what a text of a
            corpus must score to change anything.
    """

    digests: Sequence[str]
    texts: dict[int, np.ndarray]
    floors: dict[Search, np.ndarray]

    def of(self, questions: np.ndarray) -> Reach:
        """That of some questions, by position, ascending."""
        texts = {}
        for granularity, own in self.texts.items():
            question, text = unpaired(own)
            rows = np.isin(question, questions)
            texts[granularity] = pairs(np.searchsorted(questions, question[rows]), text[rows])
        floors = {search: own[questions] for search, own in self.floors.items()}
        return Reach([self.digests[i] for i in questions.tolist()], texts, floors)

    def moved(self, texts: Texts) -> tuple[Reach, np.ndarray]:
        """With the numbers that texts have now, and the questions that lost one: bool of shape (questions,)."""
        lost, moved = np.zeros(len(self.digests), bool), {}
        for granularity, own in self.texts.items():
            question, text = unpaired(own)
            now = texts.moved(granularity, text)
            lost[question[now < 0]] = True
            moved[granularity] = np.sort(pairs(question, np.maximum(now, 0)))
        return replace(self, texts=moved), lost

    def reached(self, asked: Retrieval, texts: Texts, family: Family, lost: np.ndarray) -> np.ndarray:
        """Questions whose rankings may change: those that lost a text, or that a new one reaches.

        Args:
            asked: Retrieval for them.
            texts: What changed.
            family: Of the methods.
            lost: See `moved`.

        Returns:
            bool array of shape (questions,).
        """
        found = lost.copy()
        for search, floors in self.floors.items():
            fresh, rows = texts.fresh(search.granularity), np.flatnonzero(~found)
            if not len(fresh) or not len(rows):
                continue
            terms = [asked.terms[row] for row in rows.tolist()]
            if search.retriever == "bm25":
                distinct = sorted({term for query in terms for term in query})
                index = texts.index(search.granularity, fresh, distinct)
                blocks = scored(index, terms)
                if family == "rankings" and search == Search("bm25", 1):
                    # Rankings have such pieces whatever they score.
                    held = asked.corpora.held().of("level_1")
                    rare = [any(len(index.chunks_of(word)) for word in rare_words(query, held)) for query in terms]
                    found[rows] |= np.array(rare, bool)
            else:
                table = asked.corpora.vectors(search.granularity).rows(fresh).astype(np.float32)
                blocks = multiplied(asked.vectors[rows], table)
            starts = texts.starts(search.granularity)
            bounds = [0, len(fresh)] if floors.shape[1] == 1 else [*np.searchsorted(fresh, starts), len(fresh)]
            topics = asked.topics_of(search.granularity, family == "graph")[fresh] if search.topics else None
            for part, scores in blocks:
                own = rows[part]
                if topics is not None:
                    wanted = asked.topics[0][own, None]
                    scores = np.where((wanted == topics) & (wanted >= 0), scores, -np.inf)
                for column, (first, last) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
                    best = scores[:, first:last].max(axis=1, initial=-np.inf)
                    # A text without a term of the question is never found.
                    there = best > (0 if search.retriever == "bm25" else -np.inf)
                    found[own] |= there & (best >= floors[own, column] - SLACK)
        return found

    def write(self, numbers: Path, texts: Path) -> None:
        """Write it to two files."""
        arrays = {f"floors {i}": np.ascontiguousarray(own, np.float32) for i, own in enumerate(self.floors.values())}
        flat = [np.zeros(0, np.int64)]
        for granularity, own in self.texts.items():
            question, text = unpaired(own)
            arrays[f"sizes {granularity}"] = np.bincount(question, minlength=len(self.digests)).astype(np.int32)
            flat.append(text)
        searches = [list(search) for search in self.floors]
        facts = {"digests": list(self.digests), "searches": searches, "granularities": list(self.texts)}
        numbers.write_bytes(tensors.encode(arrays, facts))
        save_columns(texts, {"text": differences(np.concatenate(flat))})

    @classmethod
    def read(cls, numbers: Path, texts: Path) -> Reach:
        """What `write` wrote."""
        arrays, facts = tensors.decode(numbers.read_bytes())
        flat, first, found = sums(load_columns(texts)["text"]), 0, {}
        for granularity in facts["granularities"]:
            sizes = arrays[f"sizes {granularity}"]
            last = first + int(sizes.sum())
            found[granularity] = pairs(np.repeat(np.arange(len(sizes)), sizes), flat[first:last])
            first = last
        floors = {Search(*search): arrays[f"floors {i}"] for i, search in enumerate(facts["searches"])}
        return cls(facts["digests"], found, floors)


def joined(parts: Sequence[Reach], order: np.ndarray) -> Reach:
    """The reach of the questions of several parts.

    Args:
        parts: With the same searches.
        order: Position of every question, the parts one after the other, among all.
    """
    texts: dict[int, np.ndarray] = {}
    starts = np.cumsum([0, *(len(part.digests) for part in parts)])
    # Where nothing was found there are no texts.
    for granularity in sorted({g for part in parts for g in part.texts}):
        keys = [np.zeros(0, np.int64)]
        for part, start in zip(parts, starts, strict=False):
            question, text = unpaired(part.texts.get(granularity, keys[0]))
            keys.append(pairs(order[start + question], text))
        texts[granularity] = np.sort(np.concatenate(keys))
    floors = {}
    for search in parts[0].floors:
        whole = np.concatenate([part.floors[search] for part in parts])
        floors[search] = np.empty_like(whole)
        floors[search][order] = whole
    digests = [own for part in parts for own in part.digests]
    return Reach([digests[i] for i in np.argsort(order).tolist()], texts, floors)


def gathered(
    family: Family,
    digests: Sequence[str],
    asked: Retrieval,
    methods: Sequence[Method],
    passages: Mapping[str, np.ndarray],
    weights: Mapping[str, np.ndarray],
) -> Reach:
    """What rankings depend on.

    Args:
        family: Of the methods.
        digests: Of all that is known of each question.
        asked: Retrieval for the questions, which has ranked them.
        methods: The methods.
        passages: By name of the method, how many of its passages are kept of every question.
        weights: See `runs.ranked`.
    """
    if family == "rankings":
        return _of_candidates(digests, asked)
    found = _Gathered(digests, asked, family == "graph")
    for topics in sorted({False, *(method.topics for method in methods)}):
        # Within topics or not, passages of all topics may have taken their place.
        own = [method for method in methods if method.topics or not topics]
        for retriever in _searched(own):
            ranker = asked.ranker(retriever, found.graph, topics)
            for granularity in range(1, ranker.chunks.count + 1):
                search, hits = Search(retriever, granularity, topics), ranker.searcher.search(granularity, DEPTH)
                if not found.graph:
                    # A fused list moves with every text that either searcher finds.
                    found.best(search, hits, DEPTH)
                    continue
                if any(method.kind != "hop" for method in own):
                    entering = hits.best_per_corpus(ranker.k_r, ranker.chunks.starts(granularity))
                    found.best(search, entering, ranker.k_r)
                for method in own:
                    if method.kind == "hop" and method.level == granularity:
                        if topics:
                            found.best(search, hits, DEPTH)
                        else:
                            found.first(search, hits, passages[method.name])
    for method in methods if found.graph else ():
        given = weights.get(method.kind)
        given = asked.weights(method.kind) if given is None and method.routed else given
        for topics in sorted({False, method.topics}):
            emitted = asked.ranker("bm25", True, topics).emitted(method, given)
            found.emitted(*emitted, passages[method.name])
    return found.reach


def _searched(methods: Sequence[Method]) -> list[Literal["bm25", "dense"]]:
    names = {method.retriever for method in methods}
    wanted: list[Literal["bm25", "dense"]] = []
    if names & {"bm25", "hybrid"}:
        wanted.append("bm25")
    if names & {"dense", "hybrid"}:
        wanted.append("dense")
    return wanted


def _of_candidates(digests: Sequence[str], asked: Retrieval) -> Reach:
    """Rankings of pieces depend on their candidates."""
    found, levels = asked.asked.found, asked.corpora.settings.level_range
    searches = [*(Search("bm25", level) for level in levels), *(Search("dense", level) for level in levels)]
    floors = {search: found.floors[:, column, None] for column, search in enumerate(searches)}
    return Reach(digests, {1: pairs(found.question, found.piece)}, floors)


class _Gathered:
    """Texts and floors, as they come.

    Args:
        digests: Of all that is known of each question.
        asked: Retrieval for the questions.
        graph: Whether granularities are hops of the sentence graph, not levels.
    """

    def __init__(self, digests: Sequence[str], asked: Retrieval, graph: bool) -> None:
        self.graph = graph
        self._digests = digests
        self._asked = asked
        self._texts: dict[int, list[np.ndarray]] = {}
        self._floors: dict[Search, np.ndarray] = {}

    @property
    def reach(self) -> Reach:
        """All of it."""
        texts = {g: np.unique(np.concatenate(own)) for g, own in sorted(self._texts.items())}
        return Reach(self._digests, texts, self._floors)

    def best(self, search: Search, hits: Hits, depth: int) -> None:
        """Depend on the `depth` best of every corpus, which are the hits."""
        self._lower(search, self._least(search, hits, depth))
        self._add(search.granularity, hits.question, hits.chunk)

    def first(self, search: Search, hits: Hits, passages: np.ndarray) -> None:
        """Depend on the first hits of every question: a text that scores less changes nothing."""
        floors = self._least(search, hits, DEPTH)
        kept = places(hits.question) < passages[hits.question]
        last = np.full(len(passages), np.inf)
        np.minimum.at(last, hits.question[kept], hits.score[kept])
        full = np.bincount(hits.question[~kept], minlength=len(passages)) > 0
        floors[full] = np.maximum(floors[full], last[full, None])
        self._lower(search, floors)

    def emitted(self, hits: Hits, granularities: np.ndarray, passages: np.ndarray) -> None:
        """Depend on the first texts that a method emits for every question."""
        kept = places(hits.question) < passages[hits.question]
        for granularity in np.unique(granularities[kept]).tolist():
            rows = kept & (granularities == granularity)
            self._add(granularity, hits.question[rows], hits.chunk[rows])

    def _starts(self, granularity: int) -> np.ndarray:
        made_of = self._asked.neighbourhoods if self.graph else self._asked.corpora
        return made_of.starts(granularity)

    def _least(self, search: Search, hits: Hits, depth: int) -> np.ndarray:
        """Score of the last of the `depth` best of every corpus; where there are fewer, whatever scores is found."""
        starts, questions = self._starts(search.granularity), len(self._asked.queries)
        group = hits.question * len(starts) + np.searchsorted(starts, hits.chunk, side="right") - 1
        least = np.full(questions * len(starts), np.inf)
        np.minimum.at(least, group, hits.score)
        fewer = np.bincount(group, minlength=len(least)) < depth
        least[fewer] = 0 if search.retriever == "bm25" else -np.inf
        return least.reshape(questions, -1)

    def _lower(self, search: Search, floors: np.ndarray) -> None:
        self._floors[search] = np.minimum(self._floors.get(search, np.inf), floors).astype(np.float32)

    def _add(self, granularity: int, question: np.ndarray, text: np.ndarray) -> None:
        if not self.graph:
            layout = self._asked.corpora.layout
            document = layout.document_of[layout.covered(text, granularity)[0]]
            granularity, text = 1, layout.offsets[document]
        self._texts.setdefault(granularity, []).append(np.unique(pairs(question, text)))
