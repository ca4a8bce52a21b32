"""Numbers of the lists and headings of a Word document, which are counted, not stored (ISO 29500-1, 17.9)."""

from __future__ import annotations

import re
from typing import Any

from mog_assets.documents.formats.packages import WORD

BULLET = "-"
_ROMAN = dict(m=1000, cm=900, d=500, cd=400, c=100, xc=90, l=50, xl=40, x=10, ix=9, v=5, iv=4, i=1)
_CHINESE = "〇一二三四五六七八九"
# Names of formats that write 12 as 十二.
_COUNTED = re.compile("chineseCount|taiwaneseCount|japaneseCount|chineseLegal|koreanDigital2")


def value(element: Any, name: str) -> str | None:
    """The value of a child of an element; None if it has none."""
    child = None if element is None else element.find(f"{WORD}{name}")
    return None if child is None else child.get(f"{WORD}val")


def whole(text: str | None, otherwise: int) -> int:
    """A whole number, or what stands for one that is missing or damaged."""
    return int(text) if text and text.isdecimal() else otherwise


class Numbering:
    """Counts the paragraphs of lists, in the order in which they are asked for.

    Args:
        root: The part `numbering`; None if there is none.
    """

    def __init__(self, root: Any) -> None:
        self._levels: dict[str, dict[int, Any]] = {}
        # Of each list: the levels that it counts by, those that it counts anew, and the first number of each.
        self._lists: dict[str, tuple[str, dict[int, int], dict[int, int]]] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._begun: set[tuple[str, int]] = set()
        links, named = dict[str, str | None](), dict[str | None, str]()
        for abstract in () if root is None else root.iter(f"{WORD}abstractNum"):
            key = abstract.get(f"{WORD}abstractNumId", "")
            levels = ((whole(level.get(f"{WORD}ilvl"), 0), level) for level in abstract.iter(f"{WORD}lvl"))
            self._levels[key] = dict(levels)
            links[key], named[value(abstract, "styleLink")] = value(abstract, "numStyleLink"), key
        for one in () if root is None else root.iter(f"{WORD}num"):
            key = value(one, "abstractNumId") or ""
            if link := links.get(key):
                key = named.get(link, key)
            starts = {
                whole(changed.get(f"{WORD}ilvl"), 0): whole(value(changed, "startOverride"), 1)
                for changed in one.iter(f"{WORD}lvlOverride")
                if value(changed, "startOverride")
            }
            first = {at: whole(value(level, "start"), 1) for at, level in self._levels.get(key, {}).items()}
            self._lists[one.get(f"{WORD}numId", "")] = key, starts, first | starts

    def label(self, number: str, level: int | None, style: str) -> str | None:
        """What stands before the next paragraph of a list; None if there is no such list.

        Args:
            number: Of the list.
            level: From 0; None for the one that belongs to the paragraph's style.
            style: Id of the paragraph's style.
        """
        key, starts, first = self._lists.get(number, ("", {}, {}))
        levels, counts = self._levels.get(key, {}), self._counts.setdefault(key, {})
        if level is None:
            level = next((at for at, one in levels.items() if value(one, "pStyle") == style), 0)
        if level not in levels:
            return None
        if level in starts and (number, level) not in self._begun:
            self._begun.add((number, level))
            counts.pop(level, None)
        counts[level] = counts[level] + 1 if level in counts else first[level]
        for deeper in [at for at in counts if at > level]:
            del counts[deeper]
        here = levels[level]
        if value(here, "numFmt") == "bullet":
            return BULLET
        decimal = here.find(f"{WORD}isLgl") is not None

        def shown(match: re.Match[str]) -> str:
            at = int(match[1]) - 1
            form = "" if decimal else value(levels.get(at), "numFmt") or ""
            return _number(counts.setdefault(at, first.get(at, 1)), form)

        return re.sub("%([1-9])", shown, value(here, "lvlText") or "").strip()


def _number(count: int, form: str) -> str:
    if form.endswith("Roman"):
        roman, left = "", min(count, 9999)
        for letters, worth in _ROMAN.items():
            times, left = divmod(left, worth)
            roman += letters * times
        return roman.upper() if form.startswith("upper") else roman
    if form.endswith("Letter") and count:
        letters = chr(ord("a") + (count - 1) % 26) * ((count - 1) // 26 + 1)
        return letters.upper() if form.startswith("upper") else letters
    if form == "decimalEnclosedCircle" and 0 < count <= 20:
        return chr(ord("①") + count - 1)
    if _COUNTED.match(form) and 0 < count < 100:
        tens, ones = divmod(count, 10)
        return (_CHINESE[tens] if tens > 1 else "") + "十" * (tens > 0) + (_CHINESE[ones] if ones else "")
    return "" if form == "none" else f"{count:02}" if form == "decimalZero" else str(count)
