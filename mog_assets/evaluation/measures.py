"""Measures of retrieval: how much gold evidence a run's passages contain, per question.

Measures of characters place the documents of all runs side by side on one number line, so that unions of spans over
millions of passages need one sort and one running maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from mog_assets.arrays import pairs as join
from mog_assets.questions.origins import Origins, place
from mog_assets.questions.sets import MEASURED, Level, Question
from mog_assets.retrieval.controls import pieces
from mog_assets.retrieval.passages import CONTEXTS

# The longest context in tokens, at four characters each; `tokens_to_answer` counts no further.
TOKENS = 2000
# More documents than a run has for any question.
_EVERY = 1_000_000


class Board(NamedTuple):
    """What is compared with each other: questions of one set and split whose answers are known equally precisely.

    `evidence` is `spans` or `documents`, see `Question.level`.
    """

    question_set: str
    split: str
    evidence: str = "spans"

    @property
    def name(self) -> str:
        """`samples (dev)`; relevant documents are named."""
        return f"{self.question_set} ({self.split}{KNOWN_BY[self.evidence]})"


# The measure that orders the methods of a board.
LEADS = {"spans": "ER", "documents": "nDCG@10"}
# What a leaderboard says after the name of its split.
KNOWN_BY = {"spans": "", "documents": ", by relevant documents"}
KEYS = (*Board._fields, "method", "question", "document")


def named(table: pd.DataFrame) -> pd.DataFrame:
    """A table with the columns of `Board`; one of an earlier version has spans only."""
    return table if "evidence" in table else table.assign(evidence="spans")


def boards(table: pd.DataFrame, origins: Origins | None = None) -> Iterator[tuple[Board, pd.DataFrame]]:
    """The rows of each board, in the order of the table.

    Args:
        table: With the columns of `Board`.
        origins: Who made the questions: those of people then come first, keyword questions last.
    """
    found = [
        (Board(*map(str, key)), part)
        for key, part in named(table).groupby(list(Board._fields), sort=False, observed=True)
    ]
    yield from sorted(found, key=lambda pair: place(pair[0].question_set, origins or {}))


def measure_names(k: int) -> tuple[str, ...]:
    """Names of the measures, in the order in which tables show them.

    Args:
        k: Number of passages per question.
    """
    return (
        *(f"ER@{c}" for c in CONTEXTS),
        "ER",
        f"hit@{k}",
        "nDCG@10",
        "MRR",
        "Recall@10",
        f"char_recall@{k}",
        f"char_precision@{k}",
        f"char_iou@{k}",
        "tokens_to_answer",
    )


def document_measures(k: int) -> tuple[str, ...]:
    """Measures of questions of which only relevant documents are known, the leading one first."""
    return ("nDCG@10", f"hit@{k}", "MRR", "Recall@10")


def leading_measure(measures: Collection[str]) -> str:
    """The measure that orders methods, of those that a board has."""
    return LEADS["spans" if LEADS["spans"] in measures else "documents"]


MEASURES = measure_names(2)
# For every other measure, more is better.
LOWER_IS_BETTER = frozenset({"tokens_to_answer"})
# Every other measure is in 0 … 1.
RANGES = {"tokens_to_answer": (1, TOKENS)}


def headline_measures(k: int) -> list[str]:
    """The measures of a leaderboard; it is sorted by the first one."""
    return ["ER", *(f"ER@{c}" for c in CONTEXTS), f"hit@{k}", "nDCG@10"]


@dataclass(frozen=True)
class _Gold:
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


def evaluate(
    runs: pd.DataFrame,
    questions: Mapping[str, Sequence[Question]],
    k: int,
    advance: Callable[[int], object] | None = None,
) -> pd.DataFrame:
    """Every measure of every question under every method.

    `ER@c` is the share of min(gold characters, c) that the first c characters of passages cover, in ranked order, with
    the last passage cut; a character that passages repeat uses context each time but counts once. `ER` is the mean of
    the four. `char_recall@k`, `char_precision@k` and `char_iou@k` compare the gold characters with the union of the k
    best passages. `hit@k` (Success@k over the documents of the k best passages), `nDCG@10`, `MRR` (RR) and `Recall@10`
    (R@10) rank documents, each at the rank of its first passage, and are computed by ir_measures: documents have the
    grades of the question, and at least 1 if they have evidence. Of questions of which only relevant documents are
    known (evidence `documents`) these four are the only measures.

    `tokens_to_answer` counts the tokens of ranked passages up to and including the first with which the passages read
    so far contain one whole piece of gold evidence (see `pieces`), in 1 … `TOKENS`. If that takes more tokens, or there
    are too few passages, it is `TOKENS`: a mean truncated at this bound, which no failure can lower. The papers count
    over all chunks; runs are cut, hence the bound.

    Args:
        runs: A row per span of a passage: question_set, question, method, rank of the passage (from 1), corpus, doc,
            start, end, tokens. Spans of a passage share its rank and are read in the order of their rows. Rows of
            questions that are not in `questions` are skipped.
        questions: The questions to score, by question set; those without evidence and relevant documents are left out.
        k: Number of passages per question.
        advance: Called with 1 after each method.

    Returns:
        Columns question_set, split, evidence (`spans` or `documents`), method, question, document (see
        `Question.document`), each measure in [0, 1] (or in its `RANGES`; NaN where it is none), and answered. A
        question has a row for every method that ranked anything in its question set; if that method ranked nothing for
        the question, answered is False and every measure has its worst value (0, and `TOKENS` for tokens_to_answer), so
        that failures cannot improve a mean.
    """
    gold = _gold(questions)
    names = measure_names(k)
    table, passages = _groups(runs, gold)
    if table.empty:
        return pd.DataFrame({**{key: pd.Series(dtype=object) for key in KEYS}, **dict.fromkeys(names, 0.0)}).assign(
            answered=pd.Series(dtype=bool)
        )
    answered = np.zeros(len(table), bool)
    answered[passages["group"].to_numpy()] = True
    found = _character_measures(passages, gold, table["query"].to_numpy(), k)
    found |= _document_measures(passages, gold, table, k, advance)
    precise = table["evidence"].to_numpy() == "spans"
    for name in names:
        table[name] = found[name] if name in document_measures(k) else np.where(precise, found[name], np.nan)
    table["answered"] = answered
    return table[[*KEYS, *names, "answered"]]


def _gold(questions: Mapping[str, Sequence[Question]]) -> _Gold:
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
    return _Gold(keys, splits, levels, documents, np.array(characters, np.int64), spans, grades)


def _groups(runs: pd.DataFrame, gold: _Gold) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of the result, and the passages with the number of their row, by row and rank.

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
    kept = query >= 0
    corpus, doc = _codes(runs, gold)
    passages = pd.DataFrame(
        {
            "group": group_of[method_code[kept], query[kept]],
            "query": query[kept],
            "rank": runs["rank"].to_numpy(np.int64)[kept],
            "document": corpus[kept] * (doc.max(initial=0) + 1) + doc[kept],
            "start": runs["start"].to_numpy(np.int64)[kept],
            "end": runs["end"].to_numpy(np.int64)[kept],
            "tokens": runs["tokens"].to_numpy(np.int64)[kept],
        }
    )
    order = np.lexsort((passages["rank"], passages["group"]))
    return table, passages.iloc[order].reset_index(drop=True)


def _codes(runs: pd.DataFrame, gold: _Gold) -> tuple[np.ndarray, np.ndarray]:
    """Corpus and document of each passage as numbers; sets column `document` of the gold tables to match."""
    corpus, corpora = pd.factorize(runs["corpus"])
    doc, docs = pd.factorize(runs["doc"])
    of_corpus, of_doc = pd.Index(corpora, dtype=object), pd.Index(docs, dtype=object)
    for table in (gold.spans, gold.judged):
        own, document = of_corpus.get_indexer(table["corpus"]), of_doc.get_indexer(table["doc"])
        names = pd.factorize(table["corpus"] + "/" + table["doc"])[0]
        # Gold documents without a passage get distinct numbers below zero.
        number = own.astype(np.int64) * (doc.max(initial=0) + 1) + document
        table["document"] = np.where((own >= 0) & (document >= 0), number, -1 - names)
    return corpus.astype(np.int64), doc.astype(np.int64)


def _character_measures(passages: pd.DataFrame, gold: _Gold, query: np.ndarray, k: int) -> dict[str, np.ndarray]:
    """Measures that count characters, each of shape (groups,).

    Args:
        passages: Result of `_groups`.
        gold: With column `document` of the spans.
        query: Number of each group's question, shape (groups,).
        k: Number of passages per question.
    """
    group = passages["group"].to_numpy()
    start, end = passages["start"].to_numpy(), passages["end"].to_numpy()
    length = np.maximum(end - start, 0)
    first = np.searchsorted(group, group)
    total = np.cumsum(length) - length
    before = total - total[first] if len(total) else total

    # Only passages of gold documents can cover anything: a small table, a row per passage and gold span of a document.
    own = passages[["query", "document"]].assign(row=np.arange(len(passages)))
    spans = gold.spans[["query", "document", "start", "end"]].assign(piece=np.arange(len(gold.spans)))
    pairs = own.merge(spans, on=["query", "document"])
    row = pairs["row"].to_numpy()
    gold_start, gold_end = pairs["start"].to_numpy(), pairs["end"].to_numpy()

    def covered(room: np.ndarray) -> np.ndarray:
        """Gold characters in the first `room` (passages,) characters of each passage, by group."""
        low = np.maximum(start[row], gold_start)
        high = np.minimum(start[row] + room[row], gold_end)
        return _union(group[row], pairs["document"].to_numpy(), low, high, len(query))

    characters = gold.characters[query]
    found = {}
    for c in CONTEXTS:
        found[f"ER@{c}"] = covered(np.clip(c - before, 0, length)) / np.clip(characters, 1, c)
    found["ER"] = np.mean([found[f"ER@{c}"] for c in CONTEXTS], axis=0)

    top = np.where(passages["rank"].to_numpy() <= k, length, 0)
    hit = covered(top)
    passed_on = _union(group, passages["document"].to_numpy(), start, start + top, len(query))
    found[f"char_recall@{k}"] = hit / np.maximum(characters, 1)
    found[f"char_precision@{k}"] = hit / np.maximum(passed_on, 1)
    found[f"char_iou@{k}"] = hit / np.maximum(characters + passed_on - hit, 1)
    found["tokens_to_answer"] = _tokens_to_answer(passages, pairs, len(query))
    return found


def _tokens_to_answer(passages: pd.DataFrame, pairs: pd.DataFrame, groups: int) -> np.ndarray:
    """See `evaluate`.

    Args:
        passages: Result of `_groups`.
        pairs: Pairs of a passage (its row) and a gold span (piece) of the same document: row, piece, and start and end
            of the gold span.
        groups: Number of groups.

    Returns:
        float array of shape (groups,).
    """
    group, rank, tokens = (passages[name].to_numpy() for name in ("group", "rank", "tokens"))
    row, piece, gold_start, gold_end = (pairs[name].to_numpy() for name in ("row", "piece", "start", "end"))
    low = np.maximum(passages["start"].to_numpy()[row], gold_start)
    high = np.minimum(passages["end"].to_numpy()[row], gold_end)
    kept = np.flatnonzero(high > low)
    if not len(kept):
        return np.full(groups, float(TOKENS))
    # From here on, each piece belongs to one group.
    _, first, piece = np.unique(join(group[row], piece)[kept], return_index=True, return_inverse=True)
    owner, wanted = group[row[kept]][first], (gold_end - gold_start)[kept][first]
    order = np.lexsort((low[kept], piece))
    piece, low, high, rank_of = piece[order], low[kept][order], high[kept][order], rank[row[kept]][order]
    offset = piece * (high.max() + 1)
    low, high = low + offset, high + offset

    def whole(last: np.ndarray) -> np.ndarray:
        """Whether passages up to a rank (pieces,) contain each whole piece."""
        fresh = _fresh(low, np.where(rank_of <= last[piece], high, low))
        return np.bincount(piece, weights=fresh, minlength=len(wanted)) == wanted

    # The first rank at which a piece is complete, by bisection of all pieces at once.
    least, most = np.zeros(len(wanted), np.int64), np.full(len(wanted), rank_of.max())
    ever = whole(most)
    while (least < most).any():
        middle = (least + most) // 2
        there = whole(middle)
        least, most = np.where(there, least, middle + 1), np.where(there, middle, most)
    never = np.iinfo(np.int64).max
    last = np.full(groups, never)
    np.minimum.at(last, owner[ever], most[ever])
    read = np.bincount(group, weights=np.where(rank <= last[group], tokens, 0), minlength=groups)
    return np.where(last == never, TOKENS, np.clip(read, 1, TOKENS)).astype(np.float64)


def _union(group: np.ndarray, document: np.ndarray, low: np.ndarray, high: np.ndarray, groups: int) -> np.ndarray:
    """Characters in the union of each group's spans low … high − 1.

    Returns:
        int64 array of shape (groups,).
    """
    kept = np.flatnonzero(high > low)
    if not len(kept):
        return np.zeros(groups, np.int64)
    kept = kept[np.lexsort((low[kept], document[kept], group[kept]))]
    group, document, low, high = group[kept], document[kept], low[kept], high[kept]
    # Each document of a group gets a segment of the number line after all earlier ones.
    new = np.ones(len(kept), bool)
    new[1:] = (group[1:] != group[:-1]) | (document[1:] != document[:-1])
    offset = np.cumsum(new) * (high.max() + 1)
    fresh = _fresh(low + offset, high + offset)
    return np.bincount(group, weights=fresh, minlength=groups).astype(np.int64)


def _fresh(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The length of each span low … high − 1, in order of `low`, that no earlier span covers."""
    reached = np.concatenate([[0], np.maximum.accumulate(high)[:-1]])
    return np.maximum(high - np.maximum(low, reached), 0)


def _document_measures(
    passages: pd.DataFrame,
    gold: _Gold,
    table: pd.DataFrame,
    k: int,
    advance: Callable[[int], object] | None,
) -> dict[str, np.ndarray]:
    """Measures at document level, each of shape (groups,)."""
    import ir_measures
    from ir_measures import RR, R, Success, nDCG

    columns: tuple[str, ...] = ("query", "document", "grade")
    qrels: dict[str, dict[str, int]] = {}
    for query, document, grade in zip(*(gold.judged[name].to_list() for name in columns), strict=True):
        qrels.setdefault(str(query), {})[str(document)] = grade
    ranked = ir_measures.pytrec_eval.evaluator([nDCG @ 10, RR, R @ 10], qrels)
    # The k best passages may come from more documents than k.
    head = ir_measures.pytrec_eval.evaluator([Success @ _EVERY], qrels)
    names = {nDCG @ 10: "nDCG@10", RR: "MRR", R @ 10: "Recall@10", Success @ _EVERY: f"hit@{k}"}
    found = {name: np.zeros(len(table)) for name in names.values()}

    group = passages["group"].to_numpy()
    place = np.arange(len(group)) - np.searchsorted(group, group)
    best = ~passages.duplicated(["group", "document"]).to_numpy()
    documents = passages[["group", "query", "document", "rank"]].assign(place=place)[best]
    ranks = tuple(documents[name].to_list() for name in ("query", "document", "place", "rank"))
    # Groups are ordered by method, so that one method's passages are one slice.
    methods = table["method"].to_numpy()
    for name in dict.fromkeys(methods.tolist()):
        members = np.flatnonzero(methods == name)
        here = slice(*np.searchsorted(documents["group"].to_numpy(), [members[0], members[-1] + 1]))
        full: dict[str, dict[str, float]] = {}
        top: dict[str, dict[str, float]] = {}
        for query, document, order, rank in zip(*(column[here] for column in ranks), strict=True):
            full.setdefault(str(query), {})[str(document)] = -float(order)
            if rank <= k:
                top.setdefault(str(query), {})[str(document)] = -float(order)
        at = {str(query): group for query, group in zip(table["query"].to_numpy()[members], members, strict=True)}
        for evaluator, run in ((ranked, full), (head, top)):
            for metric in evaluator.iter_calc(run) if run else ():
                if metric.query_id in at:
                    found[names[metric.measure]][at[metric.query_id]] = metric.value
        if advance:
            advance(1)
    return found
