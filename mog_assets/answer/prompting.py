"""Prompts in files, and data in them that no text can break out of.

Data stand between marks with a number derived from all of the data, so that no data can contain the mark, while equal
requests have equal messages and are found in the cache. Text that looks like a mark or a control token of a chat format
is broken up.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from mog_assets.answer.replies import encodable

# A piece of data: its heading and its text.
Piece = tuple[str, str]

_FIELD = re.compile(r"\{\{(\w+)\}\}")
# Joiners are part of scripts and emoji; all other invisible characters only hide text from readers of a log.
_JOINERS = "\u200c\u200d"
_LEFT, _RIGHT = "<＜﹤‹«⟨⟪〈《〈≪⋘˂ᐸ❮❰⧼❬⪡🞀", ">＞﹥›»⟩⟫〉》〉≫⋙˃ᐳ❯❱⧽❭⪢🞂"
_ANGLES = re.compile(rf"[{_LEFT}](?:[{_JOINERS}\s]*[{_LEFT}]){{2,}}|[{_RIGHT}](?:[{_JOINERS}\s]*[{_RIGHT}]){{2,}}")
_CONTROL = re.compile(
    r"<[|｜]|[|｜]>|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]|<</?SYS>>"
    r"|</?(?:s|think|start_of_turn|end_of_turn)>",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Prompt:
    """A prompt file: `version: N`, then parts separated by lines of `---`."""

    name: str
    version: str
    parts: tuple[str, ...]


@cache
def prompt_of(package: str, name: str) -> Prompt:
    """Return a prompt of a package, from its folder `prompts`."""
    text = files(package).joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")
    head, *parts = re.split(r"^---\n", text, flags=re.MULTILINE)
    return Prompt(name, head.removeprefix("version:").strip(), tuple(part.strip() for part in parts))


def neutral(text: str) -> str:
    """Return data without anything that imitates a mark or a control token; other text is unchanged.

    Invisible characters are removed, three angle brackets in a row (of any script) become one, and control tokens of
    chat formats get a space, because some servers interpret them inside a message.
    """
    text = encodable(text).replace("\r\n", "\n").replace("\r", "\n")
    text = "".join(c for c in text if c in _JOINERS or c in "\n\t" or unicodedata.category(c) not in ("Cf", "Cc"))
    text = _ANGLES.sub(lambda run: "<" if run[0][0] in _LEFT else ">", text)
    return _CONTROL.sub(lambda token: token[0][0] + " " + token[0][1:], text)


def nonce(pieces: Sequence[str]) -> str:
    """Return a number of 32 hexadecimal digits, derived from the texts, that occurs in none of them."""
    everything = unicodedata.normalize("NFKC", "\n".join(pieces)).casefold()
    seed = json.dumps(list(pieces))
    while True:
        number = hashlib.sha256(seed.encode()).hexdigest()[:32]
        if number not in everything:
            return number
        seed += number


def marks(number: str) -> tuple[str, str]:
    """Return the start of the line before a piece of data, and the line after it."""
    return f"<<<DATA {number}", f"<<<END {number}>>>"


def fenced(number: str, piece: Piece) -> str:
    """Return a piece of data, neutralised, between its marks."""
    begin, end = marks(number)
    heading, text = piece
    return f"{begin} {heading}>>>\n{text}\n{end}"


def fill(template: str, fields: Mapping[str, str]) -> str:
    """Return a template with its fields `{{name}}` filled in, in one pass: braces inside data are text."""
    return _FIELD.sub(lambda match: fields[match[1]], template)
