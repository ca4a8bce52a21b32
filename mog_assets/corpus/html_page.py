"""Read HTML: the text of a page as a browser breaks it into lines, with its headings and without its menus."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mog_assets.corpus.marks import Mark, Parsed, heading

_HEADINGS = {f"h{depth}": depth for depth in range(1, 7)}
# Elements that start a line, and those that also have an empty line around them. All others are part of a sentence.
_LINES = {
    *("article", "aside", "body", "caption", "dd", "details", "dialog", "dir", "div", "dt", "fieldset", "figcaption"),
    *("figure", "footer", "form", "header", "hgroup", "legend", "li", "main", "menu", "search", "section", "summary"),
    *("tbody", "tfoot", "thead", "tr"),
}
_PARAGRAPHS = {"address", "blockquote", "center", "dl", "hr", "ol", "p", "pre", "table", "ul", *_HEADINGS}
_CELLS = {"td", "th"}
_CODES = {"pre", "textarea"}
_LISTS = {"dir", "menu", "ol", "ul"}
_BARS = {"header", "footer"}
# Classes that pages without those elements give their menus.
_BAR_CLASSES = {"breadcrumb", "breadcrumbs", "menu", "nav", "navbar", "navigation", "sidebar"}
# Nothing that is read: code, controls, the title (which is kept as such), and navigation.
_UNREAD = {"button", "datalist", "nav", "noscript", "script", "select", "style", "template", "title"}
_SPACE = re.compile("[ \t\n\r\f]+")


def read_html(html: str, fallback: str) -> Parsed:
    """Read a page: its visible text.

    A paragraph is one line, a row of a table is a line of cells divided by ` | `, `<pre>` stays as it is. Navigation is
    left out: `<nav>`, `role="navigation"`, and lists of nothing but links that are in the header, in the footer, in an
    element whose class says `menu` or the like, or before the first heading.

    Args:
        html: The page.
        fallback: Title of a page without title and main heading.

    Raises:
        ValueError: it cannot be parsed.
    """
    from bs4 import BeautifulSoup

    try:
        soup = BeautifulSoup(_closed(html.replace("\r\n", "\n").replace("\r", "\n")), "html.parser")
        named = soup.title.get_text() if soup.title else ""
        flow = _Flow(menus_end_at_heading=soup.find(list(_HEADINGS)) is not None)
        for node, inside in _walk(soup.body or soup):
            if isinstance(node, str):
                flow.write(node)
            elif inside:
                flow.start(node)
            else:
                flow.end(node)
    except Exception as error:  # The parser raises several kinds of errors for hostile pages.
        raise ValueError(f"the HTML cannot be parsed: {type(error).__name__}: {error}") from error
    main = next((mark.text for mark in flow.marks if mark.depth == 1), "")
    return Parsed(" ".join(named.split()) or main or fallback, flow.text(), tuple(flow.marks))


def _closed(html: str) -> str:
    """HTML in which every construct is closed; unclosed ones become text."""
    # Python's parser searches the whole page for each end: 200 kB of `<!--` took 46 s.
    comments = html.rfind("-->") + 1
    html = html[:comments] + html[comments:].replace("<!--", "&lt;!--")
    tags = html.rfind(">") + 1
    html = html[:tags] + html[tags:].replace("<", "&lt;")
    return re.sub(r"<!\[[^>]*>", "", html)


def _walk(body: Any) -> Iterator[tuple[Any, bool]]:
    """The strings of a page in order, and its elements: once where they start (True), once where they end (False)."""
    from bs4 import CData, NavigableString

    # Not recursive: pages may be nested without end.
    waiting = [(body, True)]
    while waiting:
        node, starts = waiting.pop()
        if node.name is None:
            # Not comments, declarations and the like, which are strings as well.
            if type(node) in (NavigableString, CData):
                yield str(node), True
        elif not starts:
            yield node, False
        elif node.name not in _UNREAD and node.get("role") != "navigation":
            yield node, True
            waiting.append((node, False))
            waiting += [(child, True) for child in reversed(node.contents)]


def _is_bar(element: Any) -> bool:
    if element.name in _BARS:
        return True
    # Styles put the same classes on what surrounds a whole page.
    named = not _BAR_CLASSES.isdisjoint(element.get("class") or ())
    return named and element.name != "body" and element.find(["h1", "main", "article"]) is None


class _Flow:
    """A text that grows as a page is walked through.

    Args:
        menus_end_at_heading: Whether lists of links are menus until a heading comes.
    """

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
        """The text so far."""
        return "".join(self._parts).rstrip("\n ")

    def start(self, element: Any) -> None:
        """Enter an element."""
        name = element.name
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
        name = element.name
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
