"""Encodings of texts that are not UTF-8: what names one means, what a file declares, and which is likely."""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from itertools import islice

# Encodings that are still common in documents without a mark; with rarer ones, detection errs more often.
_COMMON = (
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp866", "koi8-r"),
    *("iso8859-2", "iso8859-5", "iso8859-7", "iso8859-15", "cp932", "euc-jp", "gb18030", "big5", "cp949"),
)
# Encodings that are read as one with more characters, as browsers do (WHATWG, "Encoding").
_WIDER = {
    **{"shift_jis": "cp932", "euc_kr": "cp949", "gb2312": "gb18030", "gbk": "gb18030", "big5": "big5hkscs"},
    **{"iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874"},
}
# Certainty of a detected encoding: that of a single letter has .1, and bytes drawn at random have less.
_LEAST = 0.1
# Of the characters beyond ASCII, those that stand oddly within words, and bytes that are looked at.
_MOST_ODD, _SAMPLE = 0.1, 100_000
# Where pages and XML files declare theirs, and bytes that are looked at, or a twentieth of the file.
_DECLARED = re.compile(
    rb"""^\s*<\?xml[^>]*?encoding\s*=\s*["']([^"'>]+)|<\s*meta[^>]+charset\s*=\s*["']?([^>"'\s/;]+)""", re.I
)
_BEGINNING = 2048
_NO_TEXT = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd]")


def declared(raw: bytes) -> str:
    """Return the encoding that a page or an XML file declares; UTF-8 if it declares none that is known."""
    match = _DECLARED.search(raw[: max(_BEGINNING, len(raw) // 20)])
    label = (match[1] or match[2]).decode("ascii", "ignore") if match else ""
    return known_encoding(label.strip().removeprefix("x-")) or "utf-8"


def known_encoding(label: str) -> str:
    """Return the name of the encoding that a label means; empty if it means none of texts."""
    try:
        name = codecs.lookup(label).name
        "a".encode(name)
    except (LookupError, ValueError):
        return ""
    return _WIDER.get(name, name)


def detect(raw: bytes, wrong: str) -> tuple[str, str]:
    """Return text and encoding of bytes that are no UTF-8, if that is certain.

    Raises:
        ValueError: it is not; the message begins with what is `wrong`.
    """
    import chardet

    first = next(re.finditer(rb"[\x80-\xff]", raw)).start()
    # From the start of its line, which says what language it is.
    sample = raw[raw.rfind(b"\n", 0, first) + 1 : first + _SAMPLE]
    detected = chardet.detect(sample, include_encodings=_COMMON)
    encoding = known_encoding(detected["encoding"] or "")
    text = None
    with suppress(UnicodeError):
        text = raw.decode(encoding) if encoding else None
    if text is None or detected["confidence"] <= _LEAST or _NO_TEXT.search(text) or _is_odd(text):
        possibly = f"possibly {encoding}, but not certain" if text is not None else "no other encoding fits"
        raise ValueError(f"{wrong}; {possibly}: save it as UTF-8, or name its encoding in the settings (encoding)")
    return text, encoding


def _is_odd(text: str) -> bool:
    """Tell whether signs, capital letters and other scripts stand within words, as in a text of another encoding."""
    odd = sum(
        before.islower()
        and after.islower()
        and ord(c) > 127
        and c not in "’‐–—·"
        and (
            c.isupper()
            or not c.isalnum()
            or c in "ªº"
            # Greek to Arabic, beside Latin letters.
            or ("\u0370" <= c < "\u0700" and (before.isascii() or after.isascii()))
        )
        for before, c, after in zip(text, islice(text, 1, None), islice(text, 2, None), strict=False)
    )
    return odd > _MOST_ODD * (len(text) - len(text.encode("ascii", "ignore")))
