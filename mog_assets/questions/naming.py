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
        found = [(owner, name) for owner in corpora if name in self.documents[owner]]
        owner, slash, rest = name.partition("/")
        if not found and slash and owner in corpora and rest in self.documents[owner]:
            found = [(owner, rest)]
        if not found:
            found = [place for place in self._files.get(name.casefold(), ()) if place[0] in corpora]
            # An id that is not in NFC, as some systems name files, is the same name.
            found = [place for place in found if unicodedata.normalize("NFC", place[1]) == name] or found
        if len(found) == 1:
            return NamedDocument(*found[0])
        if not found:
            there = f"{corpus}/{name}" if corpus is not None else f"{name!r} (in {', '.join(corpora)})"
            return NamedDocument(corpus, None, f"{there} is not among the usable documents")
        told = ", ".join(f"{owner}/{doc}" for owner, doc in found[:3])
        return NamedDocument(corpus, None, f"{name!r} may be any of {told}: write corpus/id")

    @cached_property
    def _files(self) -> dict[str, list[tuple[str, str]]]:
        """Documents by names of their files, in lower case."""
        found: dict[str, list[tuple[str, str]]] = {}
        for corpus, documents in self.documents.items():
            for doc in documents:
                whole = unicodedata.normalize("NFC", doc).casefold()
                last = whole.rpartition("/")[2]
                names = {whole, last, *(name.rpartition(".")[0] for name in (whole, last) if "." in name)}
                for name in names - {""}:
                    found.setdefault(name, []).append((corpus, doc))
        return found
