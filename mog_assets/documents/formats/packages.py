"""Parts of Open XML files, Transitional and Strict (ISO 29500): Word documents, presentations, workbooks."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from lxml import etree

WORD, DRAWING, SLIDE, SHEET, MATH, RELATED, CHART, DIAGRAM = (
    f"{{http://schemas.openxmlformats.org/{kind}}}"
    for kind in (
        "wordprocessingml/2006/main",
        "drawingml/2006/main",
        "presentationml/2006/main",
        "spreadsheetml/2006/main",
        "officeDocument/2006/math",
        "officeDocument/2006/relationships",
        "drawingml/2006/chart",
        "drawingml/2006/diagram",
    )
)
# Strict files have other names for the same elements.
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")


class Package:
    """The parts of a file, by name, and how they are related.

    Args:
        parts: The files of the archive.
        kind: Suffix, for messages.
        root: Name of the main part's outermost element.

    Raises:
        ValueError: it is of another kind, or the main part is missing; the message is the reason.
    """

    def __init__(self, parts: dict[str, bytes], kind: str, root: str) -> None:
        # Names are the same in upper and lower case, and some programs write them as Windows does.
        self.parts = {name.replace("\\", "/").lower(): content for name, content in parts.items()}
        self.name = next((target for target in self.related("", "officeDocument").values()), "")
        if not self.parts.get(self.name) or (main := self.tree(self.name)).tag != root:
            raise ValueError(f"damaged: expected a {kind} file, got an archive of another kind or with missing parts")
        self.main: Any = main

    def content(self, name: str) -> bytes:
        """A part with the names that Transitional files have.

        Raises:
            ValueError: it declares a document type, which no part may: entities may expand without end.
        """
        content = self.parts[name]
        # Without the NULs of UTF-16. One byte is found to be missing in a tenth of the time.
        if b"!" in content and b"<!DOCTYPE" in content.replace(b"\0", b""):
            raise ValueError(f"damaged: {name[:100]!r} declares a document type or entities: not read")
        return _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", content)

    def tree(self, name: str) -> Any:
        """The outermost element of a part."""
        return etree.fromstring(self.content(name), etree.XMLParser(resolve_entities=False, no_network=True))

    def related(self, name: str, kind: str) -> dict[str, str]:
        """Names of the parts in the file that a part has for a purpose, such as `styles`, by id."""
        folder, file = posixpath.split(name)
        relations = posixpath.join(folder, "_rels", f"{file}.rels")
        if not self.parts.get(relations):
            return {}
        targets = {
            one.get("Id", ""): posixpath.normpath(posixpath.join("/", folder, unquote(one.get("Target", ""))))[1:]
            for one in self.tree(relations).iter("{*}Relationship")
            if one.get("TargetMode") != "External" and one.get("Type", "").endswith(f"/{kind}")
        }
        return {key: target.lower() for key, target in targets.items() if target.lower() in self.parts}

    def trees(self, kind: str) -> Iterator[Any]:
        """Those that the main part has for a purpose, as trees."""
        yield from (self.tree(name) for name in self.related(self.name, kind).values() if self.parts[name])

    @property
    def title(self) -> str:
        """That of the file's properties; empty if it has none."""
        for name in self.related("", "core-properties").values():
            try:
                found = self.tree(name).findtext("{http://purl.org/dc/elements/1.1/}title")
            # The properties may be damaged in a file that is fine.
            except (etree.XMLSyntaxError, ValueError):
                continue
            return " ".join((found or "").split())
        return ""
