"""Texts of the paragraphs, table rows and formulas of Open XML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mog_assets.documents.formats.marks import clean
from mog_assets.documents.formats.packages import DRAWING, MATH, WORD

# Not text: the same content again, for older programs; properties; what was moved away; how kanji are read.
_SKIPPED = {"{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"}
_SKIPPED |= {f"{WORD}{name}" for name in ("moveFrom", "rt", "sdtPr", "sectPr")}
_SKIPPED |= {f"{namespace}{name}" for namespace in (WORD, DRAWING) for name in ("pPr", "rPr", "tblPr", "tcPr")}
_BREAKS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
# Signs of a formula that stand before a part of it, and those around it, unless it says others.
_BEFORE = {"den": "/", "sup": "^", "sub": "_", "lim": "_"}
_DELIMITERS = {"begChr": "(", "sepChr": "|", "endChr": ")"}


def rows(table: Any, row: str, cell: str) -> Iterator[list[str]]:
    """The cells of each row of a table, with the names that its elements have; not those of tables in cells."""
    for line in outermost(table, row):
        yield [" ".join(text_of(part).split()) for part in outermost(line, cell)]


def outermost(element: Any, *tags: str) -> Iterator[Any]:
    """The elements below another that have one of some names and are not inside each other."""
    for child in element:
        if child.tag in tags:
            yield child
        elif child.tag not in _SKIPPED:
            yield from outermost(child, *tags)


def text_of(element: Any) -> str:
    """The text below an element; paragraphs inside it end in a line break, and text boxes follow it."""
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
    """A formula on one line: `x^2`, `(a+b)/c`, `√(x)`, `∑_(i=1)^n x_i`."""
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
