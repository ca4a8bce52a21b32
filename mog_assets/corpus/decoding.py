"""From bytes to texts and records: encodings, JSON lines. What cannot be read is reported, never guessed."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, Protocol

# UTF-32 first: its mark starts with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Encodings that are still common in documents without a mark; with rarer ones, detection errs more often.
_LEGACY = [
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp866", "koi8_r"),
    *("iso8859_2", "iso8859_5", "iso8859_7", "cp932", "euc_jp", "gb18030", "big5", "cp949"),
]
# An encoding is certain if letters are as frequent as in some language (coherence, 0 to 1), if hardly anything looks
# wrongly decoded (chaos, 0 to 1), and if no encoding that gives another text scores nearly as well.
_LEAST_COHERENCE, _MOST_CHAOS, _LEAD = 0.3, 0.1, 0.02
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f]")
# Direction marks and zero-width characters, except joiners, which are part of spelling.
_HIDDEN = re.compile("[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")


def decode(raw: bytes) -> tuple[str, str]:
    """Text and encoding of a file: UTF-8, UTF-16 or UTF-32 with a byte order mark, else a legacy one that is certain.

    Raises:
        ValueError: none of them; the message is the reason.
    """
    for mark, encoding in _MARKS.items():
        if raw.startswith(mark):
            try:
                return raw.decode(encoding), encoding
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"expected {encoding.upper()} after its byte order mark, got: {error.reason} at byte {error.start}"
                ) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if b"\0" in raw:
            raise ValueError(f"binary content: NUL at byte {raw.index(0)}") from None
        text, encoding = _detect(raw, f"expected UTF-8, got byte 0x{raw[error.start]:02x} at {error.start}")
        return text, encoding
    if len(_CONTROL.findall(text)) > len(text) / 10:
        raise ValueError("binary content: more than a tenth of the characters are control characters")
    return text, "utf-8"


def _detect(raw: bytes, wrong: str) -> tuple[str, str]:
    from charset_normalizer import from_bytes

    matches = list(from_bytes(raw, cp_isolation=_LEGACY))
    if not matches:
        raise ValueError(f"{wrong}; no other encoding fits")
    best = matches[0]
    rivals = [m.coherence for m in matches[1:] if m.chaos <= _MOST_CHAOS and str(m) != str(best)]
    certain = best.coherence >= _LEAST_COHERENCE and best.chaos <= _MOST_CHAOS
    if not certain or max(rivals, default=0.0) > best.coherence - _LEAD or _CONTROL.search(str(best)):
        raise ValueError(f"{wrong}; possibly {best.encoding}, but not certain: save it as UTF-8")
    return str(best), best.encoding


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
    """Number (from 1), stripped bytes, and size of every line that is not blank.

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
    """The encoding given by the byte order mark of a file's first line, if it is not UTF-8."""
    return next((encoding for mark, encoding in _MARKS.items() if line.startswith(mark)), None)


def parse_line(line: bytes) -> dict[str, Any] | str:
    """The JSON object on a line, or what is wrong with it.

    Stricter than `json.loads`: NaN, infinities and duplicate keys are errors.
    """
    try:
        record = json.loads(line.decode("utf-8-sig"), object_pairs_hook=_unique, parse_constant=_no_constant)
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
