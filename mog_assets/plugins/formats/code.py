"""Read source code: the text as it is, with its classes and functions as headings, found by tree-sitter."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from mog_assets.documents.decoding import decode
from mog_assets.documents.formats.marks import Parsed, heading

# Package and function of the grammar of a suffix. Its query of tags says what defines something.
_GRAMMARS = {
    ".c": ("tree_sitter_c", "language"),
    ".cc": ("tree_sitter_cpp", "language"),
    ".cpp": ("tree_sitter_cpp", "language"),
    ".go": ("tree_sitter_go", "language"),
    ".h": ("tree_sitter_c", "language"),
    ".hpp": ("tree_sitter_cpp", "language"),
    ".java": ("tree_sitter_java", "language"),
    ".js": ("tree_sitter_javascript", "language"),
    ".jsx": ("tree_sitter_javascript", "language"),
    ".mjs": ("tree_sitter_javascript", "language"),
    ".php": ("tree_sitter_php", "language_php"),
    ".py": ("tree_sitter_python", "language"),
    ".rb": ("tree_sitter_ruby", "language"),
    ".rs": ("tree_sitter_rust", "language"),
    ".ts": ("tree_sitter_typescript", "language_typescript"),
    ".tsx": ("tree_sitter_typescript", "language_tsx"),
}
# TypeScript's own query has only what JavaScript's has not.
_FURTHER = {"tree_sitter_typescript": "tree_sitter_javascript"}
# What holds a definition and what is written before it.
_WRAPPERS = {"decorated_definition", "export_statement", "template_declaration"}
# Definitions that are no place of their own: a constant, a field.
_KINDS = re.compile(r"definition\.(class|function|interface|macro|method|module|trait|type|enum|struct|impl)")
_DEEPEST = 6


def suffixes() -> list[str]:
    """Return those of the languages whose grammars are installed."""
    packages = {package for package, _ in _GRAMMARS.values()}
    installed = {package for package in packages if find_spec(package) is not None}
    return [suffix for suffix, (package, _) in _GRAMMARS.items() if package in installed]


def read_code(content: bytes, fallback: str, suffix: str, named: str = "") -> Parsed:
    """Read a file of source code.

    Args:
        content: Its bytes.
        fallback: The title.
        suffix: That says the language.
        named: See `decode`.

    Raises:
        ValueError: it is no text; the message is the reason.
    """
    import numpy as np

    text, encoding = decode(content, named)
    encoded = text.encode("utf-8", "surrogatepass")
    definitions = defined_names(encoded, suffix)
    # Offsets of a file that is not ASCII are counted in bytes by the grammar.
    starts = np.cumsum((np.frombuffer(encoded, np.uint8) & 0xC0) != 0x80) - 1 if len(encoded) != len(text) else None
    marks, open_until = [], list[int]()
    for start, end, name in definitions:
        while open_until and open_until[-1] <= start:
            open_until.pop()
        line = encoded.rfind(b"\n", 0, start) + 1
        offset = line if starts is None else int(starts[line])
        marks.append(heading(offset, min(len(open_until) + 1, _DEEPEST), name))
        open_until.append(end)
    return Parsed(fallback, text, tuple(marks), notes={} if encoding == "utf-8" else {"encoding": encoding})


def defined_names(content: bytes, suffix: str) -> list[tuple[int, int, str]]:
    """Return start and end of every definition, in bytes, and its name, in order; the outer before the inner."""
    from tree_sitter import Parser, QueryCursor

    language, query = _grammar(*_GRAMMARS[suffix])
    tree = Parser(language).parse(content)
    places: dict[tuple[int, int], str] = {}
    for _, captures in QueryCursor(query).matches(tree.root_node):
        node = next((nodes[0] for kind, nodes in captures.items() if _KINDS.fullmatch(kind)), None)
        names = captures.get("name")
        if node is None or not names or not names[0].text:
            continue
        name = names[0].text.decode("utf-8", "replace")
        while node.parent is not None and node.parent.type in _WRAPPERS:
            node = node.parent
        places.setdefault((node.start_byte, -node.end_byte), name)
    return [(start, -end, name) for (start, end), name in sorted(places.items())]


@cache
def _grammar(package: str, function: str) -> tuple[Any, Any]:
    """Return the language and the query of its definitions."""
    from tree_sitter import Language, Query

    grammar = import_module(package)
    language = Language(getattr(grammar, function)())
    further = import_module(_FURTHER[package]).TAGS_QUERY if package in _FURTHER else ""
    return language, Query(language, further + grammar.TAGS_QUERY)
