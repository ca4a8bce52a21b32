"""Files of questions that `mog init` finds, and what it says of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mog_assets.resources.errors import ConfigError, MogError

# Lines read from a file to tell questions from documents.
_PEEKED = 20
# Fields that say something of the answer, or of where it stands.
_KNOWN = ("answer", "long_answer", "quote", "doc", "docs", "evidence", "aliases", "options")


@dataclass(frozen=True)
class Questions:
    """A question set: name, path, number of questions by split, and the corpora of its evidence.

    Attributes:
        splits: Number of questions by split; those that name none are not counted.
        measured: The only split to measure on, if that was chosen.
        without: Number of questions that name no split.
        columns: Names of columns by field, where they were given.
        notes: What to print about its columns and its rows that cannot be read.
    """

    name: str
    path: Path
    splits: dict[str, int]
    corpora: list[str]
    measured: str | None = None
    without: int = 0
    columns: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def train(self) -> list[str]:
        """Splits to train on; none if no split would be left to measure on."""
        if self.measured is not None:
            return [split for split in self.splits if split != self.measured]
        names = self._names
        return ["train"] if "train" in names and len(names) > 1 else []

    @property
    def test(self) -> list[str]:
        """Splits to measure on."""
        return [split for split in self._names if split not in self.train]

    @property
    def divided(self) -> bool:
        """Return whether the questions are divided by document: no split has to be named."""
        return bool(self.without) and set(self._names) == {"train", "test"}

    @property
    def _names(self) -> list[str]:
        """Splits of the file, and those of the questions that name none."""
        return list(dict.fromkeys([*self.splits, *(("train", "test") if self.without else ())]))

    def __str__(self) -> str:
        counts = [f"{count:,} {split}" for split, count in self.splits.items()]
        if self.without:
            none = " without a split" if counts else " questions"
            counts.append(f"{self.without:,}{none}, divided by document into train and test")
        return (
            f"questions {self.name}: {os.path.relpath(self.path)} ({', '.join(counts)}{'; '.join(['', *self.notes])})"
        )


def look_at(path: Path) -> tuple[bool, str]:
    """Return whether a file holds questions rather than documents, and what to say if it is only called so.

    A table of questions has a column for the question (`question`; or another name for it beside a column of answers,
    quotes or documents), and lines of JSON have a key `question`; neither has a `text`.
    """
    from mog_assets.documents.folders import LINES
    from mog_assets.questions.records import NAME_IT, first_rows, listed, suffixes, used_columns

    name = path.name.lower()
    # Other files cannot be read; a FIFO would be waited for.
    if not (name.endswith(suffixes()) and path.is_file()):
        return False, ""
    try:
        rows = list(first_rows(path, _PEEKED))
        keys = list(dict.fromkeys(key for row in rows for key in row))
        if name.endswith(LINES):
            if any("question" in row and "text" not in row for row in rows):
                return True, ""
            if any("text" in row for row in rows):
                return False, ""
        else:
            if any(key.strip().lower() == "text" for key in keys):
                return False, ""
            used = used_columns(path).used
            return used["question"].strip().lower() == "question" or any(field in used for field in _KNOWN), ""
        if keys:
            raise MogError(f"{path}: expected a key `question`, found {listed(keys)}: {NAME_IT}")
        return False, ""
    # A corpus may contain files that cannot be read; `mog run` lists them.
    except MogError as error:
        unused = f"{error}; it is not used as questions, unless `--questions` names it"
        return False, unused if name.startswith("question") else ""


def find_questions(path: Path, name: str, columns: Mapping[str, str] | None = None) -> Questions:
    """Return the splits of a question file, the corpora of its evidence, and the columns that are used."""
    from mog_assets.documents.folders import LINES
    from mog_assets.questions.records import read_records, used_columns
    from mog_assets.resources.printable import printable

    splits: Counter[str] = Counter()
    corpora: dict[str, None] = {}
    without, wrong = 0, []
    given = dict(columns or {})
    try:
        for place, record in read_records(path, given):
            if isinstance(record, str):
                wrong.append(f"{place}: {record}")
            else:
                without += "split" not in record
                splits.update([record["split"]] if "split" in record else [])
                pieces = (record, *record.get("evidence", ()))
                corpora |= dict.fromkeys(piece["corpus"] for piece in pieces if "corpus" in piece)
        notes = []
        if given or not path.name.lower().endswith(LINES):
            names = used_columns(path, given)
            notes.append(str(names))
            if names.unused and not any(name in names.used for name in _KNOWN):
                notes.append(
                    "nothing says what answers them: name the columns, as `--column quote=NAME` (words of a document), "
                    "`--column doc=NAME` or `--column answer=NAME`"
                )
    except MogError as error:
        raise ConfigError(f"--questions: {error}") from error
    first = f"; the first: {printable(wrong[0][:300])}" if wrong else ""
    if not (splits or without):
        raise ConfigError(f"--questions: expected questions in {path}, found none{first}")
    if wrong:
        notes.append(f"{len(wrong):,} that cannot be read{first}")
    return Questions(name, path, dict(splits.most_common()), list(corpora), None, without, given, notes)


def files_in(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the files in some folders, each once, without hidden ones."""
    seen = set()
    for folder in folders:
        try:
            entries = sorted(folder.iterdir())
        # One that cannot be listed is told with the documents; that of a new mog.yaml may not exist yet.
        except OSError:
            continue
        for path in entries:
            if path.name.startswith(".") or path.resolve() in seen:
                continue
            seen.add(path.resolve())
            yield path


def given_columns(given: Sequence[str]) -> dict[str, str]:
    """Return names of columns by field, from `--column FIELD=NAME`."""
    from mog_assets.questions.records import check_fields

    fields: dict[str, str] = {}
    for text in given:
        key, equals, name = text.partition("=")
        if not (key and equals and name):
            raise ConfigError(f"--column: expected FIELD=NAME, such as question=Frage, got {text[:60]!r}")
        fields[key.strip()] = name
    try:
        check_fields(fields)
    except MogError as error:
        raise ConfigError(f"--column: {str(error).removeprefix('columns: ')}") from error
    return fields
