"""Ranked passages beside gold evidence, as measures read them.

Measures of characters place the documents of all runs side by side on one number line, so that unions of spans over
millions of passages need one sort and one running maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from mog_assets.questions.sets import MEASURED, Level, Question
from mog_assets.search.controls import pieces

KEYS = ("question_set", "split", "evidence", "method", "question", "document")
# More documents than a run has for any question.
_EVERY = 1_000_000


@dataclass(frozen=True)
class Gold:
    """The questions with evidence or relevant documents; spans of one question are disjoint.

    Attributes:
        keys: (question set, question) to number; numbers run from 0.
        splits: Split of each question.
        levels: What is known of each question: `spans` or `documents`.
        documents: The document of each question, from `Question.document`.
        characters: Number of gold characters of each question, shape (questions,); 0 if only documents are known.
        spans: Columns query, corpus, doc, start, end; `_codes` adds document.
        judged: Columns query, corpus, doc, grade; `_codes` adds document.
    """

    keys: dict[tuple[str, str], int]
    splits: list[str]
    levels: list[Level]
    documents: list[str]
    characters: np.ndarray
    spans: pd.DataFrame
    judged: pd.DataFrame


@dataclass(frozen=True)
class Ranked:
    """Rankings of measured questions: one for each question and method.

    Attributes:
        table: A row for each ranking: question_set, split, evidence, method, question, document, and query, the number
            of the question among the gold.
        passages: A row for each span of a passage, by ranking and rank: group (row of `table`), query, rank (from 1),
            document (number), start, end, tokens.
        gold: What is known of the questions.
        k: Number of passages that are passed on.
        advance: Called with 1 after each method.
    """

    table: pd.DataFrame
    passages: pd.DataFrame
    gold: Gold
    k: int
    advance: Callable[[int], object] | None = None
    _recalls: dict[int, np.ndarray] = field(default_factory=dict, repr=False)

    @property
    def count(self) -> int:
        """Number of rankings."""
        return len(self.table)

    @property
    def characters(self) -> np.ndarray:
        """Gold characters of the question of each ranking, shape (rankings,)."""
        return self.gold.characters[self.table["query"].to_numpy()]

    @cached_property
    def lengths(self) -> np.ndarray:
        """Characters of each passage, shape (passages,)."""
        return np.maximum(self.passages["end"].to_numpy() - self.passages["start"].to_numpy(), 0)

    @cached_property
    def before(self) -> np.ndarray:
        """Characters that are read before each passage, shape (passages,)."""
        total = np.cumsum(self.lengths) - self.lengths
        group = self.passages["group"].to_numpy()
        return total - total[np.searchsorted(group, group)] if len(total) else total

    @cached_property
    def top(self) -> np.ndarray:
        """Characters of each passage that are passed on: all of the k best, none of the others."""
        return np.where(self.passages["rank"].to_numpy() <= self.k, self.lengths, 0)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """Passages and gold spans of the same document: only these can cover anything.

        Columns query, document, row (of the passage), piece (number of the span), and start and end of the span.
        """
        passages = self.passages[["query", "document"]].assign(row=np.arange(len(self.passages)))
        spans = self.gold.spans[["query", "document", "start", "end"]].assign(piece=np.arange(len(self.gold.spans)))
        return passages.merge(spans, on=["query", "document"])

    def covered(self, room: np.ndarray) -> np.ndarray:
        """Return gold characters in the first `room` characters of each passage (shape (passages,)), by ranking."""
        pairs = self.pairs
        row = pairs["row"].to_numpy()
        start, group = self.passages["start"].to_numpy()[row], self.passages["group"].to_numpy()[row]
        low = np.maximum(start, pairs["start"].to_numpy())
        high = np.minimum(start + room[row], pairs["end"].to_numpy())
        return union(group, pairs["document"].to_numpy(), low, high, self.count)

    def recall_at(self, characters: int) -> np.ndarray:
        """Return evidence recall in so many characters, by ranking: see `measures.evaluate`."""
        if characters not in self._recalls:
            room = np.clip(characters - self.before, 0, self.lengths)
            self._recalls[characters] = self.covered(room) / np.clip(self.characters, 1, characters)
        return self._recalls[characters]

    @cached_property
    def passed_on(self) -> np.ndarray:
        """Characters in the union of the passages that are passed on, by ranking."""
        start = self.passages["start"].to_numpy()
        group, document = self.passages["group"].to_numpy(), self.passages["document"].to_numpy()
        return union(group, document, start, start + self.top, self.count)

    @cached_property
    def hit(self) -> np.ndarray:
        """Gold characters in the passages that are passed on, by ranking."""
        return self.covered(self.top)

    def of_documents(self, name: str) -> np.ndarray:
        """Return a measure of documents by its name, for each ranking: see `measures.evaluate`."""
        return self._by_document[name]

    @cached_property
    def _by_document(self) -> dict[str, np.ndarray]:
        """nDCG@10, MRR, Recall@10 and hit@k of each ranking; documents are ranked by their first passage."""
        return _of_documents(self)


def gold_of(questions: Mapping[str, Sequence[Question]]) -> Gold:
    """Return what is known of questions, by question set."""
    keys: dict[tuple[str, str], int] = {}
    splits, levels, documents, characters, rows, judged = [], [], [], [], [], []
    for question_set, members in questions.items():
        for question in members:
            merged = pieces(question)
            if question.level in MEASURED and question.grades and (question_set, question.id) not in keys:
                query = keys[question_set, question.id] = len(keys)
                splits.append(question.split)
                levels.append(question.level)
                documents.append(question.document)
                characters.append(sum(end - start for *_, start, end in merged))
                rows += [(query, *span) for span in merged]
                judged += [(query, *document, grade) for document, grade in question.grades.items()]
    spans = pd.DataFrame(rows, columns=["query", "corpus", "doc", "start", "end"])
    grades = pd.DataFrame(judged, columns=["query", "corpus", "doc", "grade"])
    return Gold(keys, splits, levels, documents, np.array(characters, np.int64), spans, grades)


def groups(runs: pd.DataFrame, gold: Gold) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of the result, and the passages with the number of their row, by row and rank.

    Returns:
        Columns question_set, split, evidence, method, question, document and query (number among the gold); and
        columns group, query, rank, document (number), start, end, tokens.
    """
    set_code, sets = pd.factorize(runs["question_set"])
    question_code, ids = pd.factorize(runs["question"])
    method_code, methods = pd.factorize(runs["method"])
    numbers = np.full((len(sets), len(ids)), -1, np.int64)
    set_at, id_at = ({str(name): i for i, name in enumerate(names)} for names in (sets, ids))
    for (question_set, question), query in gold.keys.items():
        if question_set in set_at and question in id_at:
            numbers[set_at[question_set], id_at[question]] = query
    # A method counts in a question set if it ranked anything there, even if only for questions without evidence.
    ran = np.zeros((len(sets), len(methods)), bool)
    ran[set_code, method_code] = True

    rows: list[tuple[str, str, str, str, str, str, int]] = []
    group_of = np.full((len(methods), len(gold.keys)), -1, np.int64)
    for method, method_name in enumerate(methods):
        for (question_set, question), query in gold.keys.items():
            if question_set in set_at and ran[set_at[question_set], method]:
                group_of[method, query] = len(rows)
                board = (question_set, gold.splits[query], gold.levels[query])
                rows.append((*board, str(method_name), question, gold.documents[query], query))
    table = pd.DataFrame(rows, columns=[*KEYS, "query"])

    query = numbers[set_code, question_code]
    known = query >= 0
    corpus, doc = _codes(runs, gold)
    passages = pd.DataFrame(
        {
            "group": group_of[method_code[known], query[known]],
            "query": query[known],
            "rank": runs["rank"].to_numpy(np.int64)[known],
            "document": corpus[known] * (doc.max(initial=0) + 1) + doc[known],
            "start": runs["start"].to_numpy(np.int64)[known],
            "end": runs["end"].to_numpy(np.int64)[known],
            "tokens": runs["tokens"].to_numpy(np.int64)[known],
        }
    )
    order = np.lexsort((passages["rank"], passages["group"]))
    return table, passages.iloc[order].reset_index(drop=True)


def _codes(runs: pd.DataFrame, gold: Gold) -> tuple[np.ndarray, np.ndarray]:
    """Return corpus and document of each passage as numbers; sets column `document` of the gold tables to match."""
    corpus, corpora = pd.factorize(runs["corpus"])
    doc, docs = pd.factorize(runs["doc"])
    of_corpus, of_doc = pd.Index(corpora, dtype=object), pd.Index(docs, dtype=object)
    for table in (gold.spans, gold.judged):
        corpus_number, document = of_corpus.get_indexer(table["corpus"]), of_doc.get_indexer(table["doc"])
        names = pd.factorize(table["corpus"] + "/" + table["doc"])[0]
        # Gold documents without a passage get distinct numbers below zero.
        number = corpus_number.astype(np.int64) * (doc.max(initial=0) + 1) + document
        table["document"] = np.where((corpus_number >= 0) & (document >= 0), number, -1 - names)
    return corpus.astype(np.int64), doc.astype(np.int64)


def union(group: np.ndarray, document: np.ndarray, low: np.ndarray, high: np.ndarray, groups: int) -> np.ndarray:
    """Return characters in the union of each group's spans low … high − 1.

    Returns:
        int64 array of shape (groups,).
    """
    nonempty = np.flatnonzero(high > low)
    if not len(nonempty):
        return np.zeros(groups, np.int64)
    nonempty = nonempty[np.lexsort((low[nonempty], document[nonempty], group[nonempty]))]
    group, document, low, high = group[nonempty], document[nonempty], low[nonempty], high[nonempty]
    # Each document of a group gets a segment of the number line after all earlier ones.
    new = np.ones(len(nonempty), bool)
    new[1:] = (group[1:] != group[:-1]) | (document[1:] != document[:-1])
    offset = np.cumsum(new) * (high.max() + 1)
    added = fresh(low + offset, high + offset)
    return np.bincount(group, weights=added, minlength=groups).astype(np.int64)


def fresh(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the length of each span low … high − 1, in order of `low`, that no earlier span covers."""
    reached = np.concatenate([[0], np.maximum.accumulate(high)[:-1]])
    return np.maximum(high - np.maximum(low, reached), 0)


def _of_documents(ranked: Ranked) -> dict[str, np.ndarray]:
    """Return measures of documents by name, each of shape (rankings,)."""
    import ir_measures
    from ir_measures import RR, R, Success, nDCG

    columns: tuple[str, ...] = ("query", "document", "grade")
    qrels: dict[str, dict[str, int]] = {}
    for query, document, grade in zip(*(ranked.gold.judged[name].to_list() for name in columns), strict=True):
        qrels.setdefault(str(query), {})[str(document)] = grade
    all_measures = ir_measures.pytrec_eval.evaluator([nDCG @ 10, RR, R @ 10], qrels)
    # The k best passages may come from more documents than k.
    head = ir_measures.pytrec_eval.evaluator([Success @ _EVERY], qrels)
    names = {nDCG @ 10: "nDCG@10", RR: "MRR", R @ 10: "Recall@10", Success @ _EVERY: "hit@k"}
    values = {name: np.zeros(ranked.count) for name in names.values()}

    group = ranked.passages["group"].to_numpy()
    place = np.arange(len(group)) - np.searchsorted(group, group)
    best = ~ranked.passages.duplicated(["group", "document"]).to_numpy()
    documents = ranked.passages[["group", "query", "document", "rank"]].assign(place=place)[best]
    ranks = tuple(documents[name].to_list() for name in ("query", "document", "place", "rank"))
    # Groups are ordered by method, so that one method's passages are one slice.
    methods = ranked.table["method"].to_numpy()
    for name in dict.fromkeys(methods.tolist()):
        members = np.flatnonzero(methods == name)
        here = slice(*np.searchsorted(documents["group"].to_numpy(), [members[0], members[-1] + 1]))
        full: dict[str, dict[str, float]] = {}
        top: dict[str, dict[str, float]] = {}
        for query, document, order, rank in zip(*(column[here] for column in ranks), strict=True):
            full.setdefault(str(query), {})[str(document)] = -float(order)
            if rank <= ranked.k:
                top.setdefault(str(query), {})[str(document)] = -float(order)
        at = {
            str(query): group for query, group in zip(ranked.table["query"].to_numpy()[members], members, strict=True)
        }
        for evaluator, run in ((all_measures, full), (head, top)):
            for metric in evaluator.iter_calc(run) if run else ():
                if metric.query_id in at:
                    values[names[metric.measure]][at[metric.query_id]] = metric.value
        if ranked.advance:
            ranked.advance(1)
    return values
