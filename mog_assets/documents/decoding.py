"""From bytes to texts and records: encodings, JSON lines. What cannot be read is reported, never guessed."""

from __future__ import annotations

import codecs
import itertools
import json
import math
import re
from collections.abc import Iterator
from typing import Any, Protocol

from mog_assets.text.languages import detected
from mog_assets.text.plain import HIDDEN

REPLACED = "�"

# UTF-32 first: its mark starts with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Encodings that are still common in documents without a mark; with rarer ones, detection errs more often. Latin ones
# have the letters beyond ASCII of each language that is written in them, the others those of their script.
_LATIN = {
    ("cp1252", "iso8859_15"): {
        **{"ca": "àçéèíïóòúü·", "da": "åæéø", "de": "äöüß", "en": "àâçéèêëíïñóôöü", "es": "áéíñóúü", "eu": "ñü"},
        **{"et": "äõöüšž", "fi": "åäöšž", "fr": "àâæçèéêëîïôœùûüÿ", "gl": "áéíñóúü", "is": "áæéðíóöúýþ"},
        **{"it": "àèéìíîòóùú", "nl": "éèëïóöü", "no": "åæéèêòôø", "pt": "ãáàâçéêíóôõúü", "sv": "åäéö"},
    },
    ("cp1250", "iso8859_2"): {
        **{"cs": "áčďéěíňóřšťúůýž", "hr": "ćčđšž", "hu": "áéíóöőúüű", "pl": "ąćęłńóśźż", "ro": "ăâîşţ"},
        **{"sk": "áäčďéíĺľňóôŕšťúýž", "sl": "čšž", "sq": "çë"},
    },
    ("cp1254",): {"tr": "âçîöûüğıİş"},
    ("cp1257",): {"lt": "ąčėęįšųūž", "lv": "āčēģīķļņšūž"},
}
_LANGUAGES = tuple(sorted(language for languages in _LATIN.values() for language in languages))
_PUNCTUATION = r"\u00a0¡¢£§©ª«®°²³´µ·¹º»¿×÷–—‘’‚“”„†‡•…‰‹›€™"
_HAN, _KANA = r"\u3005\u3400-\u9fff\uf900-\ufaff", r"\u3041-\u30ff"
_SCRIPTS = {
    **{"cp932": _HAN + _KANA, "euc_jp": _HAN + _KANA, "gb18030": _HAN, "big5hkscs": _HAN, "cp949": r"\uac00-\ud7a3"},
    **dict.fromkeys(("cp1251", "koi8_r", "cp866", "iso8859_5"), r"\u0400-\u04ff"),
    **dict.fromkeys(("cp1253", "iso8859_7"), r"\u0370-\u03ff"),
    **{"cp1255": r"\u0590-\u05ff", "cp1256": r"\u0600-\u06ff"},
}
# First bytes from which the characters of these are rare ones.
_RARE = {"cp932": 0x98, "euc_jp": 0xD0, "gb18030": 0xD8, "big5hkscs": 0xC9, "cp949": 0xC9}
# Encodings that are read as one with more characters, as browsers do (WHATWG, "Encoding").
_WIDER = {
    **{"shift_jis": "cp932", "euc_kr": "cp949", "gb2312": "gb18030", "gbk": "gb18030", "big5": "big5hkscs"},
    **{"iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874"},
}
# So few characters of another script may be anything.
_FEW = 8
# How wrong a text may look, from 0, and how much less than any other.
_MOST_WRONG, _LEAD = 0.15, 0.04
# Bytes from the first that is not ASCII, and characters of words with such, that an encoding is judged by.
_SAMPLE, _JUDGED = 100_000, 20_000
_WORD = re.compile(r"\S*[^\x00-\x7f]\S*")
_NO_TEXT = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_HIDDEN = re.compile(f"[{HIDDEN}]")


def decode(raw: bytes, named: str = "") -> tuple[str, str]:
    """Text and encoding of a file: by its byte order mark, as UTF-8, as it declares, or a legacy one that is certain.

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
    for encoding in ("iso2022_jp_2", "iso2022_kr") if escaped else () if text is not None else (_declared(raw),):
        given, _ = _strict(raw, encoding)
        if given is not None and not _CONTROL.search(given):
            return given, encoding
    if text is None:
        text = raw.decode("utf-8-sig", "replace")
        if 3 * text.count(REPLACED) > len(text) - len(text.encode("ascii", "ignore")):
            return _detect(raw, f"expected UTF-8, got {wrong}")
    if len(_CONTROL.findall(text)) > len(text) / 10:
        raise ValueError("binary content: more than a tenth of the characters are control characters")
    return text, "utf-8"


def _strict(raw: bytes, encoding: str) -> tuple[str | None, str]:
    """The text, or what is wrong with it."""
    try:
        return raw.decode(encoding), ""
    except UnicodeDecodeError as error:
        return None, f"byte 0x{raw[error.start]:02x} at {error.start}"
    except UnicodeError as error:
        return None, str(error)


def _declared(raw: bytes) -> str:
    """The encoding that a page or an XML file declares; UTF-8 if it declares none that is known."""
    from bs4.dammit import EncodingDetector

    label = EncodingDetector.find_declared_encoding(raw, is_html=True) or ""
    return known_encoding(label.strip("\"' ").removeprefix("x-")) or "utf-8"


def known_encoding(label: str) -> str:
    """The name of the encoding that a label means; empty if it means none of texts."""
    try:
        name = codecs.lookup(label).name
        "a".encode(name)
    except (LookupError, ValueError):
        return ""
    return _WIDER.get(name, name)


def _detect(raw: bytes, wrong: str) -> tuple[str, str]:
    first = next(re.finditer(rb"[\x80-\xff]", raw)).start()
    # From the start of its line, which says what language it is.
    sample = raw[raw.rfind(b"\n", 0, first) + 1 : first + _SAMPLE]
    fits: dict[str, tuple[float, str]] = {}
    for encoding in (*itertools.chain(*_LATIN), *_SCRIPTS):
        try:
            # The last character may be cut in two.
            text = codecs.getincrementaldecoder(encoding)().decode(sample)
        except UnicodeDecodeError:
            continue
        words = " ".join(_WORD.findall(text))[:_JUDGED]
        if words and words not in fits and not _NO_TEXT.search(text):
            judge = _wrong_script if encoding in _SCRIPTS else _wrong_letters
            fits[words] = judge(text, words, encoding), encoding
    (least, encoding), (most, rival) = sorted([*fits.values(), (math.inf, ""), (math.inf, "")])[:2]
    # Two for the same languages differ in a few signs only.
    certain = most - least >= _LEAD or any({encoding, rival} == {*pair} for pair in _LATIN)
    given = _strict(raw, encoding)[0] if certain and least <= _MOST_WRONG else None
    if given is None:
        possibly = f"possibly {encoding}, but not certain" if least <= _MOST_WRONG else "no other encoding fits"
        raise ValueError(f"{wrong}; {possibly}: save it as UTF-8, or name its encoding in the settings (encoding)")
    return given, encoding


def _wrong_letters(text: str, words: str, encoding: str) -> float:
    """The share of the characters beyond ASCII that the language of a text does not have.

    Args:
        text: As a Latin encoding reads it.
        words: Its words that are not ASCII.
        encoding: The encoding.
    """
    languages = next(languages for encodings, languages in _LATIN.items() if encoding in encodings)
    letters = languages.get(detected(text, _LANGUAGES), "")
    # In the place of these, Windows has signs that are rare.
    letters += "šžœ" if letters and encoding == "iso8859_15" else ""
    fitting = re.findall(f"[{letters}{letters.upper()}{_PUNCTUATION}]|(?<![^\\W\\d_])[¼½¾](?![^\\W\\d_])", words)
    return 1 - len(fitting) / len(re.findall(r"[^\x00-\x7f]", words)) if letters else 1.0


def _wrong_script(_: str, words: str, encoding: str) -> float:
    """How wrong words look that are not ASCII: by their script, and by how often characters follow each other."""
    from charset_normalizer import from_bytes

    of_script, asian = f"[{_SCRIPTS[encoding]}]", encoding in _RARE
    judged = re.sub(r"[\x00-\x7f]+", " ", words) if asian else words
    best = from_bytes(judged.encode(), cp_isolation=["utf_8"], threshold=1.0).best()
    if best is None or (best.coherence < 0.3 and not asian):
        return 1.0
    others = re.sub(r"[\x00-\x7f]", "", words)
    letters = re.findall(of_script, others)
    if len(letters) < _FEW:
        return 1.0
    strange = len(re.sub(f"[{_SCRIPTS[encoding]}{_PUNCTUATION}\u3000-\u303f\uff00-\uff60]", "", others))
    # Accented letters of Latin words.
    within = f"[a-z]{of_script}{{1,2}}(?=[a-z])" if asian else f"[a-z]{of_script}|{of_script}[a-z]"
    strange += len(re.findall(within, words))
    if not asian:
        strange += sum(one.isalpha() and other.isupper() for one, other in itertools.pairwise(words))
        return best.chaos + strange / len(others) - best.coherence / 4
    strange += sum(letter.encode(encoding)[0] >= _RARE[encoding] for letter in letters)
    # Japanese is not written without kana.
    kanji = _KANA in _SCRIPTS[encoding] and not re.search(f"[{_KANA}]", words)
    return best.chaos + strange / len(others) + kanji / 10


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


def parse_line(line: bytes, named: str = "") -> dict[str, Any] | str:
    """The JSON object on a line, or what is wrong with it.

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
