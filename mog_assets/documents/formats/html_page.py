"""Read HTML: the text of a page as a browser breaks it into lines, with its headings and without its menus."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from mog_assets.documents.formats.marks import Mark, Parsed, heading

_HEADINGS = {f"h{depth}": depth for depth in range(1, 7)}
# Elements that start a line, and those that also have an empty line around them. All others are part of a sentence.
_LINES = {
    *("article", "aside", "body", "button", "caption", "dd", "details", "dialog", "dir", "div", "dt", "fieldset"),
    "figcaption",
    *("figure", "footer", "form", "header", "hgroup", "legend", "li", "main", "menu", "search", "section", "summary"),
    *("tbody", "tfoot", "thead", "tr"),
}
_PARAGRAPHS = {"address", "blockquote", "center", "dl", "hr", "ol", "p", "pre", "table", "ul", *_HEADINGS}
_CELLS, _SPANS = ["td", "th"], ["rowspan", "colspan"]
_CODES = {"pre", "textarea"}
_LISTS = {"dir", "menu", "ol", "ul"}
_BARS = {"header", "footer"}
# Classes that pages without those elements give their menus.
_BAR_CLASSES = {"breadcrumb", "breadcrumbs", "menu", "nav", "navbar", "navigation", "sidebar"}
# Nothing that is read: code, controls, the title (which is kept as such), and navigation.
_UNREAD = {"datalist", "iframe", "nav", "noscript", "script", "select", "style", "template", "title"}
# Classes of what opens and shuts a panel, of the panel, and of helpers beside headings.
_OPENS = re.compile(r"accordion|collaps|disclosure|expand|faq|question|\btab(?!le|oo|u)|toggle-?(title|head)", re.I)
_PANEL = re.compile(
    r"accordion|answer|collaps|(?<![-\w])content(?!\w)|disclosure|expand|faq|panel|\btab(?!le|oo|u)", re.I
)
_HELPER = re.compile(r"anchor|edit-?section|(hash|header|heading|perma|self)-?link", re.I)
_INVISIBLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.I)
_CONTROLS = ("aria-controls", "aria-expanded", "data-bs-target", "data-target")
_PERMALINK = re.compile("[\\s#¶§∞🔗⚓↩\ufe0e\ufe0f\u200b]*")
_WORD = re.compile(r"\w")
# Characters of a label that is repeated in all rows and columns of a table that it spans, and such copies of a page.
_LABEL, _MOST_COPIES, _WIDEST = 100, 10_000, 50
# The text of an image in a link that is this short says where the link leads.
_SIGN = 20
_SPACE = re.compile("[ \t\n\r\f]+")
# Browsers show what follows these; the parser drops it.
_ENDS = re.compile(r"</(?:body|html)\s*>", re.I)
# What the parser says where it reads no further: at 2,048 elements within each other.
_UNREAD_REST = "ERR_RESOURCE_LIMIT"
# A tag, and what is in quotation marks in it. The parser's time grows with the square of its different attributes.
_TAG = re.compile(r"""<[a-zA-Z](?:[^"'>]+|"[^"]*"|'[^']*'|["'])*""")
_QUOTED = re.compile(r"""\"[^"]*"|'[^']*'""")
_BETWEEN = re.compile(r"[\s/=]+")
_MOST_ATTRIBUTES = 1000


def read_html(html: str, fallback: str) -> Parsed:
    """Read a page: its visible text.

    A paragraph is one line, a row of a table is a line of cells divided by ` | `, `<pre>` stays as it is. Navigation is
    left out: `<nav>`, `role="navigation"`, and lists of nothing but links that are in the header, in the footer, in an
    element whose class says `menu` or the like, or before the first heading. So are buttons and what is hidden, but
    for panels that open and what opens them. Images are read by their alternative text.

    Raises:
        ValueError: it cannot be parsed.
    """
    from lxml import etree

    if "\0" in html:
        raise ValueError(f"NUL character, the first at {html.index(chr(0))} of the page")
    if any(map(_is_crowded, _TAG.finditer(html))):
        raise ValueError(f"expected at most {_MOST_ATTRIBUTES:,} attributes of an element, got more")
    # A comment that does not end is text.
    if (opened := html.rfind("<!--")) > html.rfind("-->"):
        html = f"{html[:opened]}&lt;{html[opened + 1 :]}"
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    page = _ENDS.sub("", html).replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "replace")
    try:
        root = etree.fromstring(page, parser)
    except etree.XMLSyntaxError:
        root = None  # There is nothing but white space or comments.
    if any(error.type_name == _UNREAD_REST for error in parser.error_log):
        raise ValueError("expected elements within each other at most 2,048 deep, got more")
    if root is None:
        return Parsed(fallback, "")
    named = _text(root.find(".//title"))
    _spread(root)
    hidden = _Hidden(root)
    flow = _Flow(menus_end_at_heading=_has(root, *_HEADINGS))
    for node, inside in _walk(root, hidden):
        if isinstance(node, str):
            flow.write(node)
        elif inside:
            flow.start(node)
        else:
            flow.end(node)
    main = next((mark.text for mark in flow.marks if mark.depth == 1), "")
    return Parsed(" ".join(named.split()) or main or fallback, flow.text(), tuple(flow.marks), notes=hidden.notes())


def _is_crowded(tag: re.Match[str]) -> bool:
    """Return whether a tag has too many attributes to be parsed in time."""
    if len(tag[0]) < 2 * _MOST_ATTRIBUTES:
        return False
    # Those of one name are read as one.
    return len(set(_BETWEEN.split(_QUOTED.sub(" ", tag[0])))) > _MOST_ATTRIBUTES


def _text(element: Any) -> str:
    return "" if element is None else "".join(element.itertext(with_tail=False))


def _has(element: Any, *names: str) -> bool:
    """Return whether one of these elements is in an element."""
    return next(element.iterdescendants(*names), None) is not None


def _spread(root: Any) -> None:
    """Give all rows of tables the cells that span them: short texts again, empty ones for long texts."""
    left = _MOST_COPIES

    def repeat(cell: Any) -> Any:
        nonlocal left
        left -= 1
        if len(_text(cell)) > _LABEL or _has(cell, "table", *_HEADINGS):
            return cell.makeelement(cell.tag)
        label = copy.deepcopy(cell)
        label.tail = None
        return label

    spanning = [cell for cell in root.iter(*_CELLS) if any(span in cell.attrib for span in _SPANS)]
    for table in dict.fromkeys(next(cell.iterancestors("table"), None) for cell in spanning):
        above: dict[int, tuple[int, Any]] = {}
        for row in (
            () if table is None else [row for row in table.iter("tr") if next(row.iterancestors("table")) is table]
        ):
            column, below = 0, dict[int, tuple[int, Any]]()
            cells = [cell for cell in row if cell.tag in _CELLS]
            for cell in [*cells, None]:
                while column in above and left > 0:
                    rows, label = above.pop(column)
                    row.append(repeat(label)) if cell is None else cell.addprevious(repeat(label))
                    below |= {column: (rows - 1, label)} if rows > 1 else {}
                    column += 1
                if cell is None:
                    break
                # A row of one cell is a title.
                wide, high = _span(cell, "colspan") if len(cells) > 1 else 1, _span(cell, "rowspan")
                below |= {column + more: (high - 1, cell) for more in range(wide) if high > 1}
                for _ in range(wide - 1 if left > 0 else 0):
                    cell.addnext(repeat(cell) if cell.tag == "th" else cell.makeelement("td"))
                column += wide
            above = {**above, **below}


def _span(cell: Any, attribute: str) -> int:
    given = cell.get(attribute, "1").strip()
    return min(max(int(given), 1), _WIDEST) if given.isascii() and given.isdigit() else 1


class _Hidden:
    """Elements that a browser does not show of a page until its reader does something."""

    def __init__(self, root: Any) -> None:
        self._root, self._count = root, 0

    @cached_property
    def _opened(self) -> set[str]:
        """The ids that some element opens, as one of its attributes says."""
        openers = ("aria-controls", "data-bs-target", "data-target", "href")
        given = [element.get(name, "") for element in self._root.iter() for name in openers]
        return {name[1:] if name.startswith("#") else name for names in given for name in names.split()}

    def __call__(self, element: Any) -> bool:
        """Return whether an element is not read."""
        name, given = element.tag, element.attrib
        if name in _UNREAD or not given:
            return name in _UNREAD or (name == "button" and self._is_control(element, ""))
        classes = given.get("class", "")
        if given.get("role") == "navigation":
            return True
        if name == "button":
            return self._is_control(element, classes)
        if name == "a" and given.get("href", "").startswith("#") and _PERMALINK.fullmatch(_text(element)):
            return not _has(element, "img")
        if classes and _HELPER.search(classes):
            heading_of = next(element.iterancestors(*_HEADINGS), None)
            if heading_of is not None:
                return _WORD.search(_text(heading_of).replace(_text(element), "")) is not None
        shut = "hidden" in given or _INVISIBLE.search(given.get("style", ""))
        # Scripts show a page when it is complete.
        if not shut or name == "body" or _has(element, "h1", "main", "article"):
            return False
        if given.get("role") == "tabpanel" or _PANEL.search(classes) or given.get("id") in self._opened:
            return False
        self._count += _WORD.search(_text(element)) is not None
        return True

    def _is_control(self, button: Any, classes: str) -> bool:
        """Return whether a button does something else than to open what it is the title of."""
        inside = next(button.iterancestors(*_HEADINGS, "summary", "dt", *_BARS), None)
        if inside is not None:
            return inside.tag in _BARS
        opens = (
            button.get("role") == "tab" or _OPENS.search(classes) or any(name in button.attrib for name in _CONTROLS)
        )
        asks = _text(button).rstrip().endswith(("?", "？"))
        return "aria-haspopup" in button.attrib or not (opens or asks)

    def notes(self) -> dict[str, Any]:
        """Return the number of hidden elements with text."""
        return {"hidden text not read": self._count} if self._count else {}


def _walk(root: Any, hidden: Callable[[Any], bool]) -> Iterator[tuple[Any, bool]]:
    """Yield strings of a page in order, and its elements: once where they start (True), once where they end (False)."""
    # Not recursive: pages may be nested without end.
    waiting: list[tuple[Any, bool]] = [(root, True)]
    while waiting:
        node, starts = waiting.pop()
        if isinstance(node, str) or not starts:
            yield node, starts
        elif node.tag == "img":
            yield f" {_alternative(node)} ", True
        elif not hidden(node):
            yield node, True
            waiting.append((node, False))
            for child in reversed(node):
                waiting += [(child.tail or "", True), (child, True)]
            waiting.append((node.text or "", True))


def _alternative(image: Any) -> str:
    """Return text for an image, if it is not beside it, and the image stands for no link and not for the site."""
    text = image.get("alt", "")
    around = next(image.iterancestors("a", "figure"), None) if text else None
    if around is None:
        return text
    leads = around.tag == "a" and (len(text) <= _SIGN or "logo" in text.lower())
    return "" if leads or text in _text(around) else text


def _is_bar(element: Any) -> bool:
    if element.tag in _BARS:
        return True
    # Styles put the same classes on what surrounds a whole page.
    named = not _BAR_CLASSES.isdisjoint(element.get("class", "").split())
    return named and element.tag != "body" and not _has(element, "h1", "main", "article")


class _Flow:
    """A text that grows as a page is walked through."""

    def __init__(self, menus_end_at_heading: bool) -> None:
        self.marks: list[Mark] = []
        self._parts: list[str] = []
        self._length = 0
        # What comes before the next word: line ends, then bars of a table, else a space.
        self._ends, self._bars, self._space = 0, 0, False
        # Of the row of a table: its cells, and whether one has text. A cell without text yet breaks no line.
        self._cells, self._row_has_text, self._new_cell = 0, False, False
        # Open elements.
        self._links = self._codes = self._bars_open = 0
        self._before_heading = menus_end_at_heading
        # The outermost open heading, and the part that is its first word.
        self._heading: Any = None
        self._first: tuple[int, int] | None = None
        # Of every open list: whether it may be a menu, and what there was before it.
        self._lists: list[tuple[bool, int, int, int, int]] = []
        # Parts up to the last that is not in a link.
        self._plain = 0

    def text(self) -> str:
        """Return the text so far."""
        return "".join(self._parts).rstrip("\n ")

    def start(self, element: Any) -> None:
        """Enter an element."""
        name = element.tag
        self._break(name, starts=True)
        if name in _HEADINGS:
            self._before_heading = False
            # It has a mark: a list with it is no menu.
            self._plain = len(self._parts) + 1
            if self._heading is None:
                self._heading, self._first = element, None
        elif name in _LISTS:
            may_be_menu = self._bars_open > 0 or self._before_heading
            self._lists.append((may_be_menu, len(self._parts), self._length, self._ends, self._bars))
        self._links += name == "a"
        self._codes += name in _CODES
        self._bars_open += _is_bar(element)

    def end(self, element: Any) -> None:
        """Leave an element."""
        name = element.tag
        self._links -= name == "a"
        self._codes -= name in _CODES
        self._bars_open -= _is_bar(element)
        if element is self._heading:
            if self._first is not None:
                part, offset = self._first
                self.marks.append(heading(offset, _HEADINGS[name], "".join(self._parts[part:])))
            self._heading = None
        elif name in _CODES:
            self._strip()
        elif name in _LISTS:
            may_be_menu, parts, length, ends, bars = self._lists.pop()
            if may_be_menu and self._plain <= parts:
                del self._parts[parts:]
                self._length, self._ends, self._bars = length, ends, bars
        self._break(name, starts=False)

    def write(self, string: str) -> None:
        """Add a string of the page."""
        if self._codes:
            # The line end after the tag is not part of the code.
            words = string.lstrip("\n") if self._ends or not self._parts else string
            after = False
        else:
            joined = _SPACE.sub(" ", string)
            self._space = self._space or joined.startswith(" ")
            words, after = joined.strip(" "), joined.endswith(" ")
        if not words:
            return
        self._separate()
        if self._heading is not None and self._first is None and words.strip():
            self._first = len(self._parts), self._length
        self._add(words)
        self._space, self._row_has_text, self._new_cell = after, True, False
        if not self._links:
            self._plain = len(self._parts)

    def _break(self, name: str, starts: bool) -> None:
        if name in _CELLS:
            if starts:
                self._bars += self._cells > 0
                self._cells += 1
                self._new_cell = True
                # It stays on the line of its row.
                self._ends = 0 if self._row_has_text else self._ends
        elif name in ("tr", "table"):
            self._ends = 2 if name == "table" else max(self._ends, 1)
            self._bars, self._cells, self._row_has_text, self._new_cell = 0, 0, False, False
        elif self._new_cell:
            self._space = True
        elif name == "br":
            self._ends = min(self._ends + starts, 2)
        elif name in _PARAGRAPHS:
            self._ends = 2
        elif name in _LINES:
            self._ends = max(self._ends, 1)

    def _separate(self) -> None:
        """Write what comes before the next word."""
        if not self._parts:
            self._add("| " * self._bars)
        elif self._ends:
            self._add("\n" * self._ends + "| " * self._bars)
        elif self._bars:
            self._add(" |" * self._bars + " ")
        elif self._space:
            self._add(" ")
        self._ends, self._bars, self._space = 0, 0, False

    def _add(self, text: str) -> None:
        if text:
            self._parts.append(text)
            self._length += len(text)

    def _strip(self) -> None:
        """Remove the white space at the end of code."""
        while self._parts:
            last = self._parts.pop()
            self._length -= len(last)
            if last := last.rstrip():
                self._add(last)
                return
