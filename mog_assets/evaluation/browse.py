"""Details of the report: main methods, groups of questions, and wins and losses with their passages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from mog_assets.evaluation.measures import CONTEXTS, leading_measure
from mog_assets.questions.sets import Question
from mog_assets.retrieval.methods import METHODS, unplaced
from mog_assets.significance import bootstrap_interval, by_document

MOST_METHODS = 7
# Questions on either side of a pair of methods.
MOST_QUESTIONS = 15
# Passages of a method shown with or without gold evidence, and maximum number of passages shown.
FIRST_PASSAGES, MOST_PASSAGES = 3, 8
# Characters kept of a text with gold evidence, and of one without.
GOLD_CHARS, OTHER_CHARS = 700, 300
Document = tuple[str, str]
"""Corpus and id."""

Texts = Callable[[Collection[Document]], Mapping[Document, tuple[str, str]]]
"""Titles and texts of documents."""


def main_methods(scores: pd.DataFrame, most: int = MOST_METHODS) -> list[str]:
    """The methods shown by default: the best of each kind, and the best fixed level, which they are compared with.

    Args:
        scores: Result of `scores.score` for one question set and split.
        most: Number of methods, ≥ 1.

    Returns:
        Names, the best by the leading measure first, the best fixed level last; without controls and methods that use
        gold evidence.
    """
    measure = leading_measure(set(scores["measure"]))
    leading = scores[(scores["measure"] == measure) & ~scores["kind"].str.removesuffix("+topics").isin(unplaced())]
    leading = leading.sort_values("value", ascending=False, kind="stable")
    best = leading.drop_duplicates("kind")
    place = {kind: i for i, kind in enumerate(METHODS)}
    wanted = best.assign(place=best["kind"].map(lambda kind: place.get(kind, len(place))))
    fixed = best.loc[best["kind"] == "fixed", "method"].tolist()
    chosen = set([*fixed, *(m for m in wanted.sort_values("place", kind="stable")["method"] if m not in fixed)][:most])
    return sorted((name for name in leading["method"] if name in chosen), key=lambda name: name in fixed)


def groups_of(question: Question) -> list[tuple[str, str]]:
    """`kind` and `corpus` with the question's own; it may have evidence in several corpora."""
    corpora = dict.fromkeys(corpus for (corpus, _), grade in question.grades.items() if grade > 0)
    return [("kind", question.kind), *(("corpus", corpus) for corpus in corpora)]


def by_group(
    per_question: pd.DataFrame,
    questions: Iterable[Question],
    methods: Sequence[str],
    measures: Sequence[str],
    seed: int,
) -> pd.DataFrame:
    """Means per kind of question and per corpus of the gold evidence.

    Args:
        per_question: Result of `measures.evaluate` for one question set and split.
        questions: Questions of that question set.
        methods: Methods to show.
        measures: Measures to show.
        seed: Seed of the resamples.

    Returns:
        A row per group, method and measure: by (`kind` or `corpus`), group, n questions, number of documents, method,
        measure, value with its 95 % bootstrap interval low … high over documents, NaN for a single document. A question
        with evidence in two corpora counts in both.
    """
    by_id = {q.id: q for q in questions}
    here = per_question[per_question["method"].isin(methods)]
    cells = here.set_index(["question", "method"])[list(measures)].unstack("method")
    members: dict[tuple[str, str], list[int]] = {}
    for row, identity in enumerate(cells.index):
        for group_key in groups_of(by_id[identity]):
            members.setdefault(group_key, []).append(row)
    columns = [(measure, method) for measure in measures for method in methods]
    values = np.stack([cells[column].to_numpy(np.float64) for column in columns], axis=1) if len(cells) else None
    documents = here.drop_duplicates("question").set_index("question")["document"].loc[cells.index].to_numpy(str)
    rows = []
    for (by, group), at in sorted(members.items(), key=lambda item: (item[0][0] == "corpus", -len(item[1]), item[0])):
        assert values is not None
        totals = by_document(values[at], documents[at])
        low, high = bootstrap_interval(totals, seed=seed)
        counts = (len(at), len(totals.sizes))
        for i, ((measure, method), value) in enumerate(zip(columns, totals.mean, strict=True)):
            rows.append((by, group, *counts, method, measure, value, low[i], high[i]))
    return pd.DataFrame(rows, columns=["by", "group", "n", "documents", "method", "measure", "value", "low", "high"])


def read_texts(buckets: Mapping[str, Sequence[Path]], wanted: Collection[Document]) -> dict[Document, tuple[str, str]]:
    """Titles and texts of documents from the stored buckets of their corpora, by corpus."""
    texts = {}
    for corpus, paths in buckets.items():
        ids = sorted({doc for owner, doc in wanted if owner == corpus})
        for path in paths if ids else ():
            table = pq.read_table(path, columns=["id", "title", "text"], filters=[("id", "in", ids)])
            for row in table.to_pylist():
                texts[corpus, row["id"]] = (row["title"], row["text"])
    return texts


def duels(
    per_question: pd.DataFrame,
    runs: pd.DataFrame,
    questions: Iterable[Question],
    methods: Sequence[str],
    texts: Texts,
    most: int = MOST_QUESTIONS,
) -> dict[str, Any]:
    """The questions on which two methods differ most, for every pair of methods, with the passages of both.

    Args:
        per_question: Result of `measures.evaluate` for one question set and split.
        runs: Passages of that question set, from `runs.read_runs`.
        questions: Questions of that question set.
        methods: Methods to compare.
        texts: Reads documents.
        most: Number of questions on either side of a pair.

    Returns:
        JSON values; numbers refer to positions in the list of that name, offsets are in characters:

        - methods: names; measure: the leading one.
        - pairs: a, b (methods), n questions, better, worse (numbers of questions where a is better, or worse, than b),
          mean difference, and wins and losses: questions, the greatest difference first.
        - questions: id, text, kind, er (the leading measure) by method, gold (snippets), and found by method: passages
          (snippets with rank, level and why) and hidden, the number of further passages in the first 8,000 characters.
        - documents: corpus, id, title.
        - texts: each once.

        A snippet has document, start, end, text, from (the offset where its text starts) and marks: the positions of
        gold evidence in the text. For a passage with gold evidence `GOLD_CHARS` characters around it are kept, for any
        other `OTHER_CHARS`.
    """
    by_id = {q.id: q for q in questions}
    measure = leading_measure(per_question.columns[per_question.notna().all()])
    er = per_question.pivot(index="question", columns="method", values=measure)
    er = er.loc[list(dict.fromkeys(per_question["question"]))]
    pairs: list[dict[str, Any]] = []
    wanted: set[tuple[str, int]] = set()
    for a, b in combinations(range(len(methods)), 2):
        difference = (er[methods[a]] - er[methods[b]]).to_numpy(float)
        order = np.argsort(-difference, kind="stable")
        wins = [er.index[i] for i in order[:most] if difference[i] > 0]
        losses = [er.index[i] for i in order[::-1][:most] if difference[i] < 0]
        wanted |= {(identity, method) for identity in (*wins, *losses) for method in (a, b)}
        counts = {"n": len(er), "better": int((difference > 0).sum()), "worse": int((difference < 0).sum())}
        mean = round(float(difference.mean()), 4) if len(er) else 0.0
        pairs.append({"a": a, "b": b, **counts, "mean": mean, "wins": wins, "losses": losses})
    chosen = [identity for identity in er.index if any((identity, m) in wanted for m in range(len(methods)))]
    number = {identity: i for i, identity in enumerate(chosen)}
    for pair in pairs:
        for side in ("wins", "losses"):
            pair[side] = [number[identity] for identity in pair[side]]

    passages_of = dict(_passages(runs, by_id, methods, wanted))
    needed = {document for identity in chosen for document in by_id[identity].grades}
    needed |= {(row["corpus"], row["doc"]) for shown, _ in passages_of.values() for row in shown}
    book = _Book(texts(needed))
    rows = []
    for identity in chosen:
        question = by_id[identity]
        values = [round(float(er.loc[identity, method]), 4) for method in methods]
        gold = [book.snippet(question, (e.corpus, e.doc), e.start, e.end) for e in question.evidence]
        if not question.evidence:
            gold = [book.snippet(question, document, 0, book.characters(document)) for document in _relevant(question)]
        by_method = {}
        for method in range(len(methods)):
            if (identity, method) in passages_of:
                shown, hidden = passages_of[identity, method]
                passages = [
                    {
                        **book.snippet(question, (row["corpus"], row["doc"]), row["start"], row["end"]),
                        "rank": row["rank"],
                        "level": row["level"],
                        **({"why": row["why"]} if row["why"] else {}),
                    }
                    for row in shown
                ]
                by_method[str(method)] = {"passages": passages, "hidden": hidden}
        row = {"id": identity, "text": _cut(question.question, GOLD_CHARS), "kind": question.kind}
        rows.append({**row, "er": values, "gold": gold, "found": by_method})
    return {
        "methods": list(methods),
        "measure": measure,
        "pairs": pairs,
        "questions": rows,
        "documents": book.documents,
        "texts": list(book.numbers),
    }


def _relevant(question: Question) -> list[Document]:
    """The most relevant documents of a question, at most `MOST_PASSAGES`."""
    relevant = [document for document, grade in question.grades.items() if grade > 0]
    return sorted(relevant, key=lambda document: -question.grades[document])[:MOST_PASSAGES]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _passages(
    runs: pd.DataFrame, by_id: Mapping[str, Question], methods: Sequence[str], wanted: Collection[tuple[str, int]]
) -> Iterator[tuple[tuple[str, int], tuple[list[dict[str, Any]], int]]]:
    """Spans to show for each question and method (by position), and the number of further passages."""
    position = {name: i for i, name in enumerate(methods)}
    chosen = {identity for identity, _ in wanted}
    here = runs[runs["method"].isin(methods) & runs["question"].isin(chosen)]
    columns = ["rank", "corpus", "doc", "start", "end", "level", "why"]
    for key, part in here.groupby(["question", "method"], observed=True, sort=False):
        identity, method = str(key[0]), position[str(key[1])]
        if (identity, method) not in wanted:
            continue
        rows = part.sort_values("rank", kind="stable")[columns].to_dict("records")
        before = np.cumsum([0, *(row["end"] - row["start"] for row in rows)])
        rows = [row for row, start in zip(rows, before, strict=False) if start < CONTEXTS[-1]]
        golden = {
            row["rank"]
            for row in rows
            if _marks(by_id[identity], (row["corpus"], row["doc"]), row["start"], row["end"])
        }
        ranks = sorted({row["rank"] for row in rows})
        shown = [rank for rank in ranks if rank <= FIRST_PASSAGES or rank in golden][:MOST_PASSAGES]
        yield (identity, method), ([row for row in rows if row["rank"] in shown], len(ranks) - len(shown))


def _marks(question: Question, document: Document, start: int, end: int) -> list[tuple[int, int]]:
    """Gold evidence inside a span, as disjoint offsets in order."""
    inside = sorted(
        (max(e.start, start), min(e.end, end))
        for e in question.evidence
        if (e.corpus, e.doc) == document and e.start < end and e.end > start
    )
    merged: list[tuple[int, int]] = []
    for low, high in inside:
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged


class _Book:
    """Numbers documents and texts in order of first use, so that each is stored once."""

    def __init__(self, texts: Mapping[Document, tuple[str, str]]) -> None:
        self.texts = texts
        self.documents: list[list[str]] = []
        self.numbers: dict[str, int] = {}
        self._documents: dict[Document, int] = {}

    def characters(self, document: Document) -> int:
        """The length of a document."""
        return len(self.texts[document][1])

    def snippet(self, question: Question, document: Document, start: int, end: int) -> dict[str, Any]:
        """A span with shortened text and the gold evidence in it."""
        title, text = self.texts[document]
        if document not in self._documents:
            self._documents[document] = len(self.documents)
            self.documents.append([*document, _cut(title, 120)])
        marks = _marks(question, document, start, end)
        most = GOLD_CHARS if marks else OTHER_CHARS
        first = start
        if marks and end - start > most:
            # A little text before the evidence, and as much as fits after it.
            first = max(start, min(marks[0][0] - most // 5, end - most))
        last = min(first + most, end)
        number = self.numbers.setdefault(text[first:last], len(self.numbers))
        kept = [[low - first, min(high, last) - first] for low, high in marks if low < last]
        span = {"document": self._documents[document], "start": int(start), "end": int(end)}
        return {**span, "text": number, "from": int(first), "marks": [[int(a), int(b)] for a, b in kept]}
