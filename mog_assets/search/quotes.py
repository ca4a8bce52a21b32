"""Words that a question quotes: passages are of documents that have them as they stand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from mog_assets.index.corpora import Corpora
from mog_assets.text.characters import plain
from mog_assets.text.terms import terms_of

# Words in quotation marks: a text must have them as they stand.
QUOTED = re.compile('["“”„]([^"“”„]+)["“”]|«([^«»]+)»|「([^「」]+)」')


@dataclass(frozen=True)
class Quoted:
    """Places of texts that have all that is quoted in a question.

    Attributes:
        phrases: What is quoted.
        documents: Whether a document has all of it in its title and text, bool of shape (documents,).
        pieces: Level-1 chunks in which one of the phrases begins, of these documents, ascending.
    """

    phrases: Sequence[str]
    documents: np.ndarray
    pieces: np.ndarray


def phrases(question: str) -> list[str]:
    """Return what is quoted in a question, without white space around it."""
    texts = [next(group for group in match.groups() if group) for match in QUOTED.finditer(question)]
    return [text.strip() for text in texts if re.search(r"\w", text)]


def quoted(question: str, corpora: Corpora) -> Quoted | None:
    """Return where texts have what is quoted in a question; None if nothing is.

    Case, the kind of white space and hidden characters do not matter; a phrase begins and ends with whole words.
    """
    wanted = phrases(question)
    if not wanted:
        return None
    languages = corpora.analysis.languages
    candidates = np.unique(np.concatenate([_documents_with(wanted, corpora, code) for code in languages]))
    patterns = [_pattern(phrase) for phrase in wanted]
    documents, pieces = np.zeros(len(corpora.owners), bool), [np.zeros(0, np.int64)]
    for position, (title, text) in corpora.texts(candidates.tolist()).items():
        seen, origin = plain(text)
        places = [[origin[match.start()] for match in pattern.finditer(seen)] for pattern in patterns]
        if all(of_text or pattern.search(plain(title)[0]) for of_text, pattern in zip(places, patterns, strict=True)):
            documents[position] = True
            first, last = corpora.layout.offsets[position : position + 2]
            begins = np.array(sum(places, []), np.int64)
            pieces.append(first - 1 + np.searchsorted(corpora.layout.spans[first:last, 0], begins, side="right"))
    return Quoted(wanted, documents, np.unique(np.concatenate(pieces)))


def _documents_with(wanted: Sequence[str], corpora: Corpora, code: str) -> np.ndarray:
    """Return documents that have all terms of the phrases in a language; all of them if the phrases have none."""
    terms = sorted({term for row in terms_of(wanted, code) for term in row})
    matches, document_of = corpora.words.matches(terms), corpora.layout.document_of
    documents_of = [np.unique(document_of[matches.texts_of(place)]) for place in range(len(terms))]
    return reduce(np.intersect1d, documents_of) if documents_of else np.arange(len(corpora.owners))


def _pattern(phrase: str) -> re.Pattern[str]:
    phrase = plain(phrase)[0]
    words = r"\s+".join(map(re.escape, phrase.split()))
    before, after = (r"\b" if re.match(r"\w", end) and end.isascii() else "" for end in (phrase[0], phrase[-1]))
    return re.compile(f"{before}{words}{after}", re.IGNORECASE)
