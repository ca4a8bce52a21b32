"""What people call a document, and which one they mean."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class NamedDocument:
    """A document, or only a corpus; or what is wrong with the name."""

    corpus: str | None
    doc: str | None
    problem: str = ""


class DocumentNames:
    """The documents of some corpora by what they may be called.

    A name is a document's id, `corpus/id`, or, if no id is equal, the name of its file with or without folders and
    extension, whatever its case.
    """

    def __init__(self, documents: Mapping[str, Mapping[str, Any]]) -> None:
        self.documents = documents

    def find(self, name: str, corpus: str | None = None) -> NamedDocument:
        """The document that a name stands for, in `corpus` if that is given."""
        name = unicodedata.normalize("NFC", name)
        corpora = [corpus] if corpus is not None else list(self.documents)
        matches = [(owner, name) for owner in corpora if name in self.documents[owner]]
        owner, slash, rest = name.partition("/")
        if not matches and slash and owner in corpora and rest in self.documents[owner]:
            matches = [(owner, rest)]
        if not matches:
            matches = [place for place in self._files.get(name.casefold(), ()) if place[0] in corpora]
            # An id that is not in NFC, as some systems name files, is the same name.
            matches = [place for place in matches if unicodedata.normalize("NFC", place[1]) == name] or matches
        if len(matches) == 1:
            return NamedDocument(*matches[0])
        if not matches:
            wanted_name = f"{corpus}/{name}" if corpus is not None else f"{name!r} (in {', '.join(corpora)})"
            return NamedDocument(corpus, None, f"{wanted_name} is not among the usable documents")
        candidates = ", ".join(f"{owner}/{doc}" for owner, doc in matches[:3])
        return NamedDocument(corpus, None, f"{name!r} may be any of {candidates}: write corpus/id")

    @cached_property
    def _files(self) -> dict[str, list[tuple[str, str]]]:
        """Documents by names of their files, in lower case."""
        places: dict[str, list[tuple[str, str]]] = {}
        for corpus, documents in self.documents.items():
            for doc in documents:
                whole = unicodedata.normalize("NFC", doc).casefold()
                last = whole.rpartition("/")[2]
                names = {whole, last, *(name.rpartition(".")[0] for name in (whole, last) if "." in name)}
                for name in names - {""}:
                    places.setdefault(name, []).append((corpus, doc))
        return places
