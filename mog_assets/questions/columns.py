"""Which column of a table of questions is which field of a question."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mog_assets.resources.errors import MogError
from mog_assets.resources.printable import printable

# Fields that hold one text, and those that do not.
TEXTS = ("id", "question", "split", "kind", "answer", "long_answer", "quote", "prefix", "suffix", "doc", "corpus")
FIELDS = (*TEXTS, "aliases", "options", "evidence", "start", "end", "docs")
# Other names of columns for a field, without blanks, hyphens and underscores.
_SYNONYMS = {
    "id": ("qid", "questionid", "queryid"),
    "question": ("query", "questiontext", "userinput"),
    "kind": ("type", "questiontype", "category"),
    "answer": ("expectedanswer", "referenceanswer", "reference", "groundtruth"),
    "quote": ("excerpt",),
    "doc": ("document", "docid", "documentid", "source", "file", "filename"),
    "docs": ("documents", "relevantdocuments"),
}
# Names of columns in a message.
_SHOWN = 20


class Columns(NamedTuple):
    """The columns of a table that are used, by field, and those that are not."""

    used: dict[str, str]
    unused: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = [f if f == name else f"{f} = {printable(name[:60])!r}" for f, name in self.used.items()]
        unused = f"; not used: {_listed(self.unused)}" if self.unused else ""
        return f"columns: {', '.join(shown)}{unused}"


def check_fields(given: Mapping[str, str]) -> None:
    """Reject a mapping that names something that is not a field of a question.

    Raises:
        MogError: it does.
    """
    for field in given:
        if field not in FIELDS:
            raise MogError(f"columns: expected fields of a question ({', '.join(FIELDS)}), got {field[:60]!r}")


def match_columns(names: Sequence[str], given: Mapping[str, str]) -> Columns:
    """Find the columns of a table.

    A field has the column that `given` names, else the one with its name, else the only one with its name or a synonym
    of it in any case (`Question`, `Document`, `query-id`). No column is taken twice unless it is given twice.

    Args:
        names: Columns of the table.
        given: Names of columns by field.

    Raises:
        MogError: a given field or column does not exist, or none is for the question.
    """
    check_fields(given)
    used = {field: _given(field, name, names) for field, name in given.items()}
    used |= {field: field for field in FIELDS if field in names and field not in used and field not in used.values()}
    for synonyms in (False, True):
        fields = {}
        for field in FIELDS:
            wanted = _SYNONYMS.get(field, ()) if synonyms else (_plain(field),)
            free = [name for name in names if name not in used.values() and _plain(name) in wanted]
            if field not in used and len(free) == 1:
                fields[field] = free[0]
        used |= fields
    if "question" not in used:
        raise MogError(
            f"expected a column `question`, found {_listed(names)}: rename one, or name it under `columns`, as in "
            "`columns: {question: NAME}`"
        )
    in_order = {field: used[field] for field in FIELDS if field in used}
    return Columns(in_order, tuple(name for name in names if name not in used.values()))


def _given(field: str, name: str, names: Sequence[str]) -> str:
    if name in names:
        return name
    # Readers of tables change the case of some names.
    near = [existing for existing in names if _plain(existing) == _plain(name)]
    if len(near) != 1:
        raise MogError(
            f"columns.{field}: expected a column of the file ({_listed(names)}), got {printable(name)[:60]!r}"
        )
    return near[0]


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name.lower())


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(printable(name[:60]) for name in names[:_SHOWN]) + more
