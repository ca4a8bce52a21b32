"""Read files of SQuAD.

References: Rajpurkar et al. 2016, SQuAD: 100,000+ Questions for Machine Comprehension of Text; Rajpurkar et al. 2018,
Know What You Don't Know: Unanswerable Questions for SQuAD.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from mog_assets.documents.decoding import parse_line
from mog_assets.plugins.datasets.foreign import ForeignRecord, Importer, Notes, read_at_once
from mog_assets.questions.records import Advance
from mog_assets.registry import IMPORTERS
from mog_assets.resources.errors import MogError

# Bytes of a file, which is read at once; the public ones have 42,000,000.
_MOST = 500_000_000
_Value = TypeVar("_Value", str, list[Any])


class Squad:
    """Give the articles of SQuAD 1.1 or 2.0 as documents, their paragraphs joined by a blank line.

    The split of a file is `train` or `dev` if its name has that, else `test`.
    """

    # The documents are read already: there is no progress to show.
    size = 0

    def __init__(self, paths: Iterable[Path], notes: Notes) -> None:
        # Split, text, and the questions with the offset of their paragraph, by id.
        self._articles: dict[str, tuple[str, str, list[tuple[int, Any]]]] = {}
        for path in paths:
            split = next((s for s in ("train", "dev") if s in path.name.lower()), "test")
            for number, article in enumerate(_articles(path), start=1):
                place, text, questions = f"{path.name}: article {number}", "", []
                for paragraph in _get(article, "paragraphs", []):
                    if not (context := _get(paragraph, "context", "")).strip():
                        notes.add("paragraphs skipped, with their questions", f"{place}: expected a text")
                        continue
                    text += f"\n\n{context}" if text else context
                    questions += [(len(text) - len(context), qa) for qa in _get(paragraph, "qas", [])]
                if not text:
                    notes.add("articles skipped", f"{place}: expected paragraphs with texts")
                    continue
                title = _get(article, "title", "").strip() or f"article {number}"
                names = (title if n == 1 else f"{title} {n}" for n in range(1, len(self._articles) + 2))
                self._articles[next(n for n in names if n not in self._articles)] = (split, text, questions)

    def documents(self, advance: Advance) -> Iterator[ForeignRecord]:
        """See `Dataset`."""
        for identity, (_, text, _) in self._articles.items():
            yield f"article {identity[:100]!r}", {"id": identity, "title": identity.replace("_", " "), "text": text}

    def questions(self, ids: Collection[str], corpus: str, notes: Notes) -> Iterator[dict[str, Any]]:
        """See `Dataset`."""
        for identity, (split, text, questions) in self._articles.items():
            if identity not in ids:
                notes.add("articles whose questions are left out, because the article is", repr(identity[:100]))
                continue
            for start, qa in questions:
                if record := _question(qa, text, start, {"corpus": corpus, "doc": identity}, notes):
                    yield {**record, "split": split}


def _get(record: Any, key: str, default: _Value) -> _Value:
    """Return a value of a JSON object if it is of the type of the default."""
    value = record.get(key) if isinstance(record, dict) else None
    return value if isinstance(value, type(default)) else default


def _articles(path: Path) -> list[Any]:
    # The parser of lines is strict and needs no line to be a line.
    content = parse_line(read_at_once(path, "SQuAD file", _MOST))
    if isinstance(content, dict) and isinstance(content.get("data"), list):
        return content["data"]
    got = content if isinstance(content, str) else f"an object with {', '.join(content)[:200] or 'nothing'}"
    raise MogError(f"{path}: expected SQuAD's format, an object with a list `data`, got: {got}")


def _question(qa: Any, text: str, start: int, place: dict[str, str], notes: Notes) -> dict[str, Any] | None:
    """Return the record of a question whose paragraph starts at `start` of the text of a document at `place`."""
    identity, question = qa.get("id") if isinstance(qa, dict) else None, _get(qa, "question", "")
    if not isinstance(identity, str | int) or not question.strip():
        notes.add("questions skipped", f"{str(identity)[:100]!r}: expected id and question")
        return None
    record: dict[str, Any] = {"id": str(identity), "question": question}
    where = repr(record["id"][:100])
    if qa.get("is_impossible") is True:
        notes.add("impossible questions, imported without evidence and with the kind `impossible`", where)
        return {**record, "kind": "impossible"}
    answers = [
        (answer["text"], start + answer["answer_start"])
        for answer in _get(qa, "answers", [])
        if _get(answer, "text", "") and type(answer.get("answer_start")) is int
    ]
    right = [(answer, at) for answer, at in answers if at >= start and text.startswith(answer, at)]
    if len(right) < len(answers):
        notes.add("questions with answers that are not where the file says", where)
    texts = [answer for answer, _ in answers if answer.strip()]
    if right:
        # Annotators mark different places; the one that most of them chose is the evidence, the first of several.
        (answer, at), _ = Counter(right).most_common(1)[0]
        texts = [answer, *texts]
        record["evidence"] = [{"start": at, "end": at + len(answer), **place}]
    else:
        notes.add("questions imported without evidence", where)
    if texts:
        record["answer"], *aliases = dict.fromkeys(texts)
        record |= {"aliases": aliases} if aliases else {}
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
