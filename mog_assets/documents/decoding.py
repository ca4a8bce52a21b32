"""From bytes to texts and records: encodings, JSON lines. What cannot be read is reported, never guessed."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, Protocol

from mog_assets.documents.encodings import declared, detect, known_encoding
from mog_assets.text.characters import HIDDEN

REPLACED = "�"

# UTF-32 first: its mark starts with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_HIDDEN = re.compile(f"[{HIDDEN}]")


def decode(raw: bytes, named: str = "") -> tuple[str, str]:
    """Return text and encoding of a file: by its byte order mark, as UTF-8, as declared, or a certain legacy one.

    Bytes of a UTF-8 text that are no UTF-8 become U+FFFD, if they are few.

    Args:
        raw: The bytes.
        named: The encoding of a file that is not UTF-8 (`corpora.C.encoding`); no other is tried.

    Raises:
        ValueError: none of them; the message is the reason.
    """
    if marked := other_encoding(raw):
        text, wrong = _strict(raw, marked)
        if text is None:
            raise ValueError(f"expected {marked.upper()} after its byte order mark, got {wrong}")
        return text, marked
    text, wrong = _strict(raw, "utf-8-sig")
    if named and (text is None or raw.isascii()):
        given, wrong = _strict(raw, named := known_encoding(named))
        if given is None:
            raise ValueError(f"expected {named} (encoding of the corpus), got {wrong}: correct it, or save as UTF-8")
        return given, "utf-8" if given == text else named
    if b"\0" in raw and text is None:
        raise ValueError(f"binary content: NUL at byte {raw.index(0)}")
    # ISO 2022 is ASCII to who does not know it.
    escaped = b"\x1b$" in raw or b"\x1b(" in raw
    for encoding in ("iso2022_jp_2", "iso2022_kr") if escaped else () if text is not None else (declared(raw),):
        given, _ = _strict(raw, encoding)
        if given is not None and not _CONTROL.search(given):
            return given, encoding
    if text is None:
        text = raw.decode("utf-8-sig", "replace")
        if 3 * text.count(REPLACED) > len(text) - len(text.encode("ascii", "ignore")):
            return detect(raw, f"expected UTF-8, got {wrong}")
    if len(_CONTROL.findall(text)) > len(text) / 10:
        raise ValueError("binary content: more than a tenth of the characters are control characters")
    return text, "utf-8"


def _strict(raw: bytes, encoding: str) -> tuple[str | None, str]:
    """Return the text, or what is wrong with it."""
    try:
        return raw.decode(encoding), ""
    except UnicodeDecodeError as error:
        return None, f"byte 0x{raw[error.start]:02x} at {error.start}"
    except UnicodeError as error:
        return None, str(error)


def hidden_characters(text: str) -> dict[str, int]:
    """Count of each invisible character that may reorder or split visible text: `{"U+202E": 2}`."""
    if text.isascii():
        return {}
    counts: dict[str, int] = {}
    for character in _HIDDEN.findall(text):
        name = f"U+{ord(character):04X}"
        counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items()))


class _Readable(Protocol):
    def readline(self, size: int = -1, /) -> bytes: ...


def split_lines(stream: _Readable, limit: int | None = None) -> Iterator[tuple[int, bytes, int]]:
    """Yield number (from 1), stripped bytes, and size of every line that is not blank.

    A line of more than `limit` bytes is not kept, only its size.
    """
    number = 0
    while line := stream.readline(-1 if limit is None else limit + 1):
        number += 1
        size = len(line) - line.endswith(b"\n")
        if limit is not None and size > limit:
            while line and not line.endswith(b"\n"):
                line = stream.readline(1 << 20)
                size += len(line) - line.endswith(b"\n")
            yield number, b"", size
        elif line := line.strip():
            yield number, line, size


def other_encoding(line: bytes) -> str | None:
    """Return the encoding given by the byte order mark of a file's first line, if it is not UTF-8."""
    return next((encoding for mark, encoding in _MARKS.items() if line.startswith(mark)), None)


def parse_line(line: bytes, named: str = "") -> dict[str, Any] | str:
    """Return the JSON object on a line, or what is wrong with it.

    Stricter than `json.loads`: NaN, infinities and duplicate keys are errors. `named` is its encoding, if not UTF-8.
    """
    try:
        text = decode(line, named)[0] if named else line.decode("utf-8-sig")
        record = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        return f"expected UTF-8, got byte 0x{error.object[error.start]:02x} at byte {error.start} of the line"
    except (ValueError, RecursionError) as error:
        return f"malformed JSON: {error}"
    return record if isinstance(record, dict) else f"expected a JSON object, got {type(record).__name__}"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {twice[:40]!r} occurs twice in an object")
    return result


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")
