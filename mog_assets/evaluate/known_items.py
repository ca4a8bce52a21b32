"""Whether rankings find what is typed exactly, asked with words of the collection itself."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.config import Settings
from mog_assets.evaluate.choice import ALPHA, UNTRAINED
from mog_assets.evaluate.significance import by_document, permutation_p
from mog_assets.index.corpora import Corpora
from mog_assets.resources.arrays import running
from mog_assets.search.candidates import Candidates, ordered
from mog_assets.search.methods import needs, parse
from mog_assets.search.rankings import models_of
from mog_assets.search.retrieval import Retrieval
from mog_assets.text.chunks import Layout
from mog_assets.text.terms import is_word

# The file: a row for each item, form and ranking.
ITEMS = "known_items.parquet"
KINDS = ("word", "number", "title")
# Items of each kind, and the characters within which their text must be.
MOST, NEAR = 60, 4000
FORMS = {"alone": "{}", "in a sentence": "What is said about {}?"}
# What rankings must be as good as.
LEAST = "fixed-1"
_DIGIT = re.compile(r"\d")
_SURFACE = re.compile(r"\w[\w'’-]*")


@dataclass(frozen=True)
class KnownItem:
    """Something that one text has.

    Attributes:
        kind: `word`; `number`, a term with a digit, as identifiers have; or `title`.
        text: What is typed.
        document: Position of the document.
        piece: The piece; None for a title, of which any piece of the document will do.
    """

    kind: str
    text: str
    document: int
    piece: int | None = None


def drawn_items(corpora: Corpora) -> list[KnownItem]:
    """Return at most `MOST` items of each kind, by a hash of their text, so that an edit changes few of them."""
    titles = [title for table in corpora.tables(["title"]) for title in table["title"].to_pylist()]
    layout, items = corpora.layout, _terms(corpora)
    keys = [" ".join(terms) for terms in corpora.analysis.terms(titles)]
    times = Counter(keys)
    sole = [i for i, key in enumerate(keys) if key and times[key] == 1 and layout.offsets[i] < layout.offsets[i + 1]]
    return items + [KnownItem("title", titles[i], i) for i in sorted(sole, key=lambda i: _hash(titles[i]))[:MOST]]


def _terms(corpora: Corpora) -> list[KnownItem]:
    """Return words and numbers that one piece has."""
    index, layout = corpora.words, corpora.layout
    frequencies = corpora.statistics.frequencies("level_1").totals()
    sole = [term for term, times in frequencies.items() if times == 1 and is_word(term) and len(term) > 3]
    items = []
    for name in KINDS[:2]:
        terms = [term for term in sole if bool(_DIGIT.search(term)) == (name == "number")]
        # Some stand in a title alone, or in a text that came since they were counted.
        pieces = {term: index.matches([term]).texts_of(0) for term in sorted(terms, key=_hash)[: 2 * MOST]}
        piece_of = {term: int(chunks[0]) for term, chunks in pieces.items() if len(chunks) == 1}
        texts = corpora.texts(layout.document_of[list(piece_of.values())].tolist()) if piece_of else {}
        selected: list[KnownItem] = []
        for term, piece in piece_of.items():
            document, (start, end) = int(layout.document_of[piece]), layout.spans[piece].tolist()
            words = dict.fromkeys(_SURFACE.findall(texts[document][1][start:end]))
            text = next((word for word in words if corpora.analysis.terms([word]) == [[term]]), None)
            selected += [KnownItem(name, text, document, piece)] if text else []
        items += selected[:MOST]
    return items


def _hash(text: str) -> str:
    return hashlib.sha256(f"known item {text}".encode()).hexdigest()[:8]


def standing(retrieval: Retrieval, items: Sequence[KnownItem], rankings: Sequence[str]) -> pd.DataFrame:
    """Return where rankings have items.

    Returns:
        A row for each item, form and ranking (`LEAST` among them): `form`, `kind`, `text`, `document` (its position),
        `ranking`, `first` (whether it is in the first piece) and `near` (whether its piece begins within `NEAR`
        characters).
    """
    parts = []
    for form, template in FORMS.items():
        ranked = retrieval.with_queries([template.format(item.text) for item in items])
        candidates = ranked.read.candidates
        by_words = candidates.scores[:, 0]
        for name, scores in (
            (LEAST, by_words),
            *((name, ranked.scores(parse(name, retrieval.index.settings))) for name in rankings),
        ):
            first, near = placed(candidates, scores, items, retrieval.corpora.layout)
            rows = [(form, item.kind, item.text, item.document) for item in items]
            part = pd.DataFrame(rows, columns=["form", "kind", "text", "document"])
            parts.append(part.assign(ranking=name, first=first, near=near))
    return pd.concat(parts, ignore_index=True)


def placed(
    candidates: Candidates, scores: np.ndarray, items: Sequence[KnownItem], layout: Layout
) -> tuple[np.ndarray, np.ndarray]:
    """Return whether each item is in the first piece, and whether it is near: bool arrays of shape (items,)."""
    order = ordered(candidates, scores)
    before = np.empty(len(order), np.int64)
    before[order] = running(candidates.place[order, 2].astype(np.int64), candidates.question[order])
    piece = np.array([-1 if item.piece is None else item.piece for item in items], np.int64)[candidates.question]
    document = np.array([item.document for item in items], np.int64)[candidates.question]
    right = np.where(piece < 0, layout.document_of[candidates.piece] == document, candidates.piece == piece)
    marks = [np.bincount(candidates.question, right & rows, len(items)) > 0 for rows in (before == 0, before < NEAR)]
    return marks[0], marks[1]


def summary(table: pd.DataFrame, seed: int) -> list[dict[str, Any]]:
    """Return a row for each form and ranking: shares of items that are first and near, and p of the difference.

    p is that of near, paired, by document; None for `LEAST` itself.
    """
    rows = []
    for form, part in table.groupby("form", sort=False):
        near = part.pivot_table(index=["kind", "text", "document"], columns="ranking", values="near", sort=False)
        near = near.astype(float)
        documents = near.index.get_level_values("document").to_numpy()
        for name, members in part.groupby("ranking", sort=False):
            p = None
            if name != LEAST:
                gains = (near[name] - near[LEAST]).to_numpy()
                p = float(permutation_p(by_document(gains[:, None], documents), seed=seed)[0])
            shares = {"first": float(members["first"].mean()), f"in {NEAR:,} characters": float(members["near"].mean())}
            rows.append({"asked": form, "ranking": name, **shares, "p": p})
    return rows


def losing(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return rankings that find significantly fewer items than BM25 at level 1, by any form of asking.

    Args:
        rows: Result of `summary`.
    """
    column = f"in {NEAR:,} characters"
    least = {row["asked"]: row[column] for row in rows if row["ranking"] == LEAST}
    fewer = [row for row in rows if row["p"] is not None and row[column] < least[row["asked"]]]
    return sorted({row["ranking"] for row in fewer if row["p"] < ALPHA})


def rankings_of(settings: Settings) -> list[str]:
    """Return the rankings that are asked for known items: those that `auto` may stand for."""
    return [UNTRAINED, *(models_of(settings) if settings.trains else ())]


def read_for_items(settings: Settings) -> tuple[str, ...]:
    """Return keys of the assets that are read to ask them."""
    return needs([parse(name, settings) for name in rankings_of(settings)], settings).keys
