"""Read files of SQuAD.

References: Rajpurkar et al. 2016, SQuAD: 100,000+ Questions for Machine Comprehension of Text; Rajpurkar et al. 2018,
Know What You Don't Know: Unanswerable Questions for SQuAD.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from mog_assets.corpus.decoding import parse_line
from mog_assets.questions.foreign import Found, Ids, Importer, Notes
from mog_assets.questions.streams import Advance, whole
from mog_assets.registry import IMPORTERS
from mog_assets.resources.errors import MogError

# Bytes of a file, which is read at once; the public ones have 42,000,000.
_MOST = 500_000_000


class Squad:
    """Files of SQuAD 1.1 or 2.0; every article is one document, its paragraphs joined by a blank line.

    Args:
        paths: The files; the split of one is `train` or `dev` if its name has that, else `test`.
        notes: What is unusable is added to them.

    Raises:
        MogError: one is not in this format, or too large.
    """

    def __init__(self, paths: Iterable[Path], notes: Notes) -> None:
        self._articles: list[tuple[str, str, str, list[tuple[int, Any]]]] = []
        taken: set[str] = set()
        self.size = 0
        for path in paths:
            split = next((s for s in ("train", "dev") if s in path.name.lower()), "test")
            for number, article in enumerate(_squad_articles(path), start=1):
                place = f"{path.name}: article {number}"
                title = article.get("title") if isinstance(article, dict) else None
                paragraphs = article.get("paragraphs") if isinstance(article, dict) else None
                if not isinstance(paragraphs, list):
                    notes.add("articles skipped", f"{place}: expected an object with paragraphs")
                    continue
                name = title.strip() if isinstance(title, str) and title.strip() else f"article {number}"
                identity = next(
                    i for n in range(1, len(taken) + 2) if (i := name if n == 1 else f"{name} {n}") not in taken
                )
                taken.add(identity)
                text, questions_of = _joined(paragraphs, place, notes)
                self.size += len(text)
                self._articles.append((identity, split, text, questions_of))

    def documents(self, advance: Advance) -> Iterator[Found]:
        """See `Dataset`."""
        for identity, _, text, _ in self._articles:
            yield f"article {identity[:100]!r}", {"id": identity, "title": identity.replace("_", " "), "text": text}
            advance(len(text))

    def questions(self, ids: Ids, corpus: str, notes: Notes) -> Iterator[dict[str, Any]]:
        """See `Dataset`."""
        for identity, split, text, questions_of in self._articles:
            if identity not in ids:
                notes.add("articles whose questions are left out, because the article is", repr(identity[:100]))
                continue
            for start, qa in questions_of:
                record = _squad_question(qa, text, start, notes)
                if record is not None:
                    for span in record.get("evidence", ()):
                        span |= {"corpus": corpus, "doc": identity}
                    yield {**record, "split": split}


def _squad_articles(path: Path) -> list[Any]:
    # The parser of lines is strict and needs no line to be a line.
    content = parse_line(whole(path, "SQuAD file", _MOST))
    articles = content.get("data") if isinstance(content, dict) else None
    if not isinstance(articles, list):
        keys = "" if isinstance(content, str) else ", ".join(list(content)[:10])[:200]
        got = content if isinstance(content, str) else f"an object with {keys or 'nothing'}"
        raise MogError(f"{path}: expected SQuAD's format, an object with a list `data`, got: {got}")
    return articles


def _joined(paragraphs: list[Any], place: str, notes: Notes) -> tuple[str, list[tuple[int, Any]]]:
    """The text of an article, and its questions with the offset of their paragraph."""
    parts: list[str] = []
    questions_of: list[tuple[int, Any]] = []
    start = 0
    for paragraph in paragraphs:
        context = paragraph.get("context") if isinstance(paragraph, dict) else None
        if not isinstance(context, str) or not context.strip():
            notes.add("paragraphs skipped, with their questions", f"{place}: expected a text that is not blank")
            continue
        qas = paragraph.get("qas")
        questions_of += [(start, qa) for qa in (qas if isinstance(qas, list) else [])]
        parts.append(context)
        start += len(context) + 2
    return "\n\n".join(parts), questions_of


def _squad_question(qa: Any, text: str, start: int, notes: Notes) -> dict[str, Any] | None:
    """The record of a question whose paragraph starts at `start` of a text."""
    identity, question = (qa.get(key) if isinstance(qa, dict) else None for key in ("id", "question"))
    if not isinstance(identity, str | int) or not isinstance(question, str) or not question.strip():
        notes.add("questions skipped", f"{str(identity)[:100]!r}: expected id and question")
        return None
    record: dict[str, Any] = {"id": str(identity), "question": question}
    if qa.get("is_impossible") is True:
        notes.add("impossible questions, imported without evidence and with the kind `impossible`", repr(record["id"]))
        return {**record, "kind": "impossible"}
    given = qa.get("answers")
    answers = [
        (a["text"], start + a["answer_start"])
        for a in (given if isinstance(given, list) else [])
        if isinstance(a, dict) and isinstance(a.get("text"), str) and type(a.get("answer_start")) is int
    ]
    right = [(said, at) for said, at in answers if said and at >= start and text.startswith(said, at)]
    if len(right) < len(answers):
        notes.add("questions with answers that are not where the file says", repr(record["id"][:100]))
    if not right:
        notes.add("questions imported without evidence", repr(record["id"][:100]))
    texts = list(dict.fromkeys(said for said, _ in answers if said.strip()))
    if right:
        # Annotators mark different places; the one that most of them chose is the evidence, the first of several.
        (said, at), _ = Counter(right).most_common(1)[0]
        texts = [said, *(other for other in texts if other != said)]
        record["evidence"] = [{"start": at, "end": at + len(said)}]
    if texts:
        record["answer"] = texts[0]
        record |= {"aliases": texts[1:]} if texts[1:] else {}
    return record


IMPORTERS.register(
    "squad",
    Importer(
        "Import SQuAD files (.json, versions 1.1 and 2.0): the split is in the name, such as train-v2.0.json.",
        [click.Argument(["files"], nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")],
        named=lambda files: files[0].with_name(files[0].name.removesuffix(".gz").removesuffix(".json")),
        open=lambda notes, files: Squad(files, notes),
    ),
)
