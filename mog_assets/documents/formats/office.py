"""Open XML files, Transitional and Strict (ISO 29500): their parts, texts, tables and formulas; presentations."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from lxml import etree

from mog_assets.documents.formats.marks import MarkedText, Parsed, clean

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
        """Return a part with the names that Transitional files have.

        Raises:
            ValueError: it declares a document type, which no part may: entities may expand without end.
        """
        content = self.parts[name]
        # Without the NULs of UTF-16. One byte is found to be missing in a tenth of the time.
        if b"!" in content and b"<!DOCTYPE" in content.replace(b"\0", b""):
            raise ValueError(f"damaged: {name[:100]!r} declares a document type or entities: not read")
        return _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", content)

    def tree(self, name: str) -> Any:
        """Return the outermost element of a part."""
        return etree.fromstring(self.content(name), etree.XMLParser(resolve_entities=False, no_network=True))

    def related(self, name: str, kind: str) -> dict[str, str]:
        """Return names of the parts in the file that a part has for a purpose, such as `styles`, by id."""
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
        """Yield those that the main part has for a purpose, as trees."""
        yield from (self.tree(name) for name in self.related(self.name, kind).values() if self.parts[name])

    @property
    def title(self) -> str:
        """That of the file's properties; empty if it has none."""
        for name in self.related("", "core-properties").values():
            try:
                text = self.tree(name).findtext("{http://purl.org/dc/elements/1.1/}title")
            # The properties may be damaged in a file that is fine.
            except (etree.XMLSyntaxError, ValueError):
                continue
            return " ".join((text or "").split())
        return ""


# Not text: the same content again, for older programs; properties; what was moved away; how kanji are read.
_SKIPPED = {"{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"}
_SKIPPED |= {f"{WORD}{name}" for name in ("moveFrom", "rt", "sdtPr", "sectPr")}
_SKIPPED |= {f"{namespace}{name}" for namespace in (WORD, DRAWING) for name in ("pPr", "rPr", "tblPr", "tcPr")}
_BREAKS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
# Signs of a formula that stand before a part of it, and those around it, unless it says others.
_BEFORE = {"den": "/", "sup": "^", "sub": "_", "lim": "_"}
_DELIMITERS = {"begChr": "(", "sepChr": "|", "endChr": ")"}


def rows(table: Any, row: str, cell: str) -> Iterator[list[str]]:
    """Yield the cells of each row of a table, with the names that its elements have; not those of tables in cells."""
    for line in outermost(table, row):
        yield [" ".join(text_of(part).split()) for part in outermost(line, cell)]


def outermost(element: Any, *tags: str) -> Iterator[Any]:
    """Yield the elements below another that have one of some names and are not inside each other."""
    for child in element:
        if child.tag in tags:
            yield child
        elif child.tag not in _SKIPPED:
            yield from outermost(child, *tags)


def text_of(element: Any) -> str:
    """Return the text below an element; paragraphs inside it end in a line break, and text boxes follow it."""
    pieces, boxes = list[str](), list[str]()
    waiting = [element]
    while waiting:
        node = waiting.pop()
        if not isinstance(node.tag, str) or node.tag in _SKIPPED:
            continue
        space, _, name = node.tag.rpartition("}")
        if name in ("oMath", "txbxContent") and node is not element:
            pieces.append(_formula(node)) if name == "oMath" else boxes.append(f"\n{text_of(node)}")
            continue
        if f"{space}}}" in (WORD, DRAWING):
            if name == "t":
                pieces.append(node.text or "")
            elif name in _BREAKS:
                pieces.append(_BREAKS[name])
            elif name in ("p", "tc") and pieces:
                pieces.append("\n")
        waiting += reversed(node)
    return clean("".join([*pieces, *boxes]))


def _formula(element: Any) -> str:
    """Return a formula on one line: `x^2`, `(a+b)/c`, `√(x)`, `∑_(i=1)^n x_i`."""
    name = element.tag[len(MATH) :] if isinstance(element.tag, str) else ""
    if name == "t" or element.tag == f"{WORD}t":
        return element.text or ""
    if name.endswith("Pr") or element.tag in _SKIPPED:
        return ""
    parts = [_formula(child) for child in element if isinstance(child.tag, str)]
    own = element.find(f"{MATH}{name}Pr")
    marks = {} if own is None else {child.tag[len(MATH) :]: child.get(f"{MATH}val", "") for child in own}
    if name == "d":
        begin, separator, end = ({**_DELIMITERS, **marks}[key] for key in _DELIMITERS)
        return begin + separator.join(part for part in parts if part) + end
    if name in ("m", "eqArr"):
        return "; ".join(parts)
    text = (" " if name == "mr" else "").join(parts)
    if name in ("num", *_BEFORE) and not (len(text) < 2 or text.isalnum() or text[0] in "(["):
        text = f"({text})"
    if name == "rad":
        degree, of = ("".join(_formula(part) for part in element.iterchildren(f"{MATH}{key}")) for key in ("deg", "e"))
        return f"{degree}√({of})"
    if name == "nary":
        return f"{marks.get('chr', '∫')}{''.join(parts[:-1])} {''.join(parts[-1:])}".rstrip()
    return _BEFORE.get(name, "") * bool(text) + text


_TABLE, _TEXT, _SHAPE = f"{DRAWING}tbl", f"{SLIDE}txBody", f"{SLIDE}sp"


def read_pptx(parts: dict[str, bytes], fallback: str, limit: int) -> Parsed:
    """Read a presentation.

    Raises:
        ValueError: it is damaged; the message is the reason.
    """
    package = Package(parts, ".pptx", f"{SLIDE}presentation")
    draft, charts = MarkedText(limit), 0
    names = package.related(package.name, "slide")
    named = (names.get(one.get(f"{RELATED}id", "")) for one in package.main.iter(f"{SLIDE}sldId"))
    for number, name in enumerate(filter(None, named), start=1):
        slide = package.tree(name)
        charts += sum(1 for _ in slide.iter(f"{CHART}chart", f"{DIAGRAM}relIds"))
        draft.start("slide", str(number))
        title = next((shape for shape in slide.iter(_SHAPE) if _placeholder(shape).lower().endswith("title")), None)
        if title is not None:
            draft.add(" ".join(text_of(title).split()), depth=1)
        for element in outermost(slide, _TABLE, _TEXT):
            if element.tag == _TABLE:
                for at, cells in enumerate(rows(element, f"{DRAWING}tr", f"{DRAWING}tc")):
                    draft.add(" | ".join(cells) if any(cells) else "", "\n" if at else "\n\n")
            elif element.getparent() is not title:
                draft.add(text_of(element).strip())
        for notes in map(package.tree, package.related(name, "notesSlide").values()):
            for shape in notes.iter(_SHAPE):
                draft.add(text_of(shape).strip() if _placeholder(shape) == "body" else "")
    return draft.parsed(package.title, fallback, {"charts not read": charts} if charts else {})


def _placeholder(shape: Any) -> str:
    """Return what a shape is in the layout of its slide, such as `title`; empty if it is none of it."""
    placeholder = shape.find(f"{SLIDE}nvSpPr/{SLIDE}nvPr/{SLIDE}ph")
    return "" if placeholder is None else placeholder.get("type", "")
