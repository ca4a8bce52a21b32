"""How replies of models are read, in every role: for what they say, or not at all.

A reply may have reasoning before it, a fence around it, words before and after it, or the form of a tool call. What is
cut off, refuses, or says two things is no answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

# Part of the names of readers: replies that were paid for are read again when it changes.
VERSION = 2
# No model is asked for so many characters; longer outputs are not parsed.
MAX_CHARS = 100_000
# Objects in an output, at most: no role needs more than one.
_MOST_OBJECTS = 64
# The key of an answer that names the documents it rests on.
CITED = "documents"
MAX_QUERY_CHARS = 1_000
# A refusal begins a text.
_REFUSAL_CHARS = 300

_TAG = r"(?:think|thinking|thought|reasoning)"
# The last one is the format of gpt-oss, where a server passes it on.
MARKS = re.compile(
    rf"(?P<opens><{_TAG}>|\[THINK\]|◁think▷|<\|channel\|>analysis)"
    rf"|</{_TAG}>|\[/THINK\]|◁/think▷|<\|channel\|>final<\|message\|>"
)
# What may stand before a tool call, besides a fence.
_CALLS = re.compile(r"(?:<\|?\w+\|?>|\[TOOL_CALLS\])?\s*\[?\s*")
# An object begins with a name or ends at once; other braces are prose.
_OBJECT = re.compile(r'\{(?=\s*["}])')
# How models refuse in a text. Only what they say of themselves and of the request: "The documents cannot tell" and
# "I cannot find a dose" are thoughts. English, German, French and Spanish.
_REFUSES = re.compile(
    r"\W*(?:(?:unfortunately|i apologi[sz]e|(?:i['’]?m|i am|we are)?\s*(?:so |very |really )?sorry"
    r"|as an ai\b[^,.]{0,40})[,.;:!]?\s*(?:but\s+)?){0,3}"
    r"(?:i|we)(?:['’]m| am| are)?\s*(?:can['’]?t|cannot|can not|won['’]?t|will not|unable to|not able to|must decline)"
    r"(?:\s+(?:to|really|fully))*\s*"
    r"(?:help(?! but)|assist|comply|engage|fulfil+|continue with|do that|$"
    r"|(?:answer|respond to|discuss|process) (?:this|that|your)\b"
    r"|provide (?:medical|legal|financial|personal) advice)"
    r"|\W*(?:es )?tut mir (?:sehr )?leid\W.{0,60}\bkann ich (?:\w+ ){0,3}nicht\b"
    r"|\W*(?:je suis )?désolée?\W.{0,40}\bje ne peux pas\b"
    r"|\W*lo siento\W.{0,40}\bno puedo\b",
    re.IGNORECASE,
)


class Unparsable(ValueError):
    """An output without an answer in the requested format."""


def encodable(text: str) -> str:
    """Return text that can be encoded as UTF-8: lone surrogates and NULs become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


def without_reasoning(text: str) -> str:
    """Return an output without its reasoning, with or without the mark at which that begins.

    Raises:
        Unparsable: it is too long, the reasoning does not end, or nothing follows it.
    """
    if len(text) > MAX_CHARS:
        raise Unparsable(f"expected at most {MAX_CHARS} characters, got {len(text)}")
    pieces: list[str] = []
    start, opened = 0, None
    for mark in MARKS.finditer(text):
        if mark["opens"] and opened is None:
            pieces.append(text[start : mark.start()])
            opened = mark.start()
        elif not mark["opens"]:
            # Without the mark at which it begins: a server has put that into the prompt.
            pieces = pieces if opened is not None else []
            start, opened = mark.end(), None
    if opened is not None and not text[:opened].rpartition("\n")[2].strip():
        raise Unparsable("expected an answer after the reasoning, got reasoning that does not end")
    rest = "".join([*pieces, text[start if opened is None else opened :]]).strip()
    if not rest:
        raise Unparsable(f"expected an answer, got {'only reasoning' if text.strip() else 'nothing'}")
    return rest


def decode(text: str) -> list[dict[str, Any]]:
    """Return top-level JSON objects of an output, in order; of a tool call, its arguments.

    Raises:
        Unparsable: an object is cut off, is not valid JSON, or has a key twice, with two values. Objects within it
            could be drafts.
    """
    objects: list[dict[str, Any]] = []
    position = 0
    while start := _OBJECT.search(text, position):
        try:
            value, position = _DECODER.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            raise Unparsable("expected a JSON object, got one that cannot be read") from None
        objects.append(value)
        if len(objects) > _MOST_OBJECTS:
            raise Unparsable(f"expected a JSON object, got more than {_MOST_OBJECTS}")
    return [_arguments(value) for value in objects]


def only(text: str, key: str) -> Any:
    """Return the value of a key that exactly one object has; objects with equal values count as one.

    Raises:
        Unparsable: no object has it, or several have it with different values, or see `decode`.
    """
    return agreed([o[key] for o in decode(without_reasoning(text)) if key in o], key)


def agreed(values: Sequence[Any], key: str) -> Any:
    """Return the value that all are equal to.

    Raises:
        Unparsable: there is none, or they differ.
    """
    if not values:
        raise Unparsable(f"expected an object with {key}, got none")
    if any(value != values[0] for value in values):
        raise Unparsable(f"expected one {key}, got several that differ")
    return values[0]


def worded(value: Any, name: str, most: int = MAX_CHARS) -> str:
    """Return a value that is a text, without blanks at its ends.

    Raises:
        Unparsable: it is no text, blank, longer than `most` characters, or a refusal.
    """
    if not isinstance(value, str) or not 0 < len(value.strip()) <= most:
        raise Unparsable(f"expected {name}, a text of 1 to {most} characters, got {shown(str(value))}")
    if _REFUSES.match(value[:_REFUSAL_CHARS]):
        raise Unparsable(f"expected {name}, got a refusal: {shown(value)}")
    return encodable(value.strip())


def complete_text(text: str, name: str = "a text") -> str:
    """Return whole output, where a text is asked for: without a fence around it, or the only text of an only object.

    Raises:
        Unparsable: it is blank, a refusal, or a tool call: a text that is meant for a tool is not the text asked for.
    """
    text = without_reasoning(text)
    if text.count("```") == 2 and text.startswith("```") and text.endswith("```"):
        text = text[:-3].partition("\n")[2].strip()
    start = _OBJECT.search(text)
    if start is not None and _CALLS.fullmatch(text, 0, start.start()):
        try:
            value, end = _DECODER.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            value, end = {}, 0
        if _arguments(value) is not value:
            raise Unparsable(f"expected {name}, got a tool call")
        texts = [one for one in value.values() if isinstance(one, str)]
        if (start.start(), end) == (0, len(text)) and len(value) == len(texts) == 1:
            text = texts[0]
    return worded(text, name)


def ended(text: str, reason: str, plain: bool) -> None:
    """Check an output that may be cut off: a whole object in it says what it says, a part of a text does not.

    Raises:
        Unparsable: it is cut off, and has no whole object.
    """
    if reason == "length" and (plain or not decode(without_reasoning(text))):
        raise Unparsable("expected an answer that ends, got one cut off: raise llm.max_tokens")


def failure(error: Unparsable, text: str) -> str:
    """Return what is recorded of an output that could not be read: why, and how it begins."""
    beginning = shown(text)
    return str(error) if beginning in str(error) else f"{error}; the reply: {beginning}"


def shown(text: str) -> str:
    """Return the beginning of a text for a message, quoted, on one line."""
    text = " ".join(encodable(text[:400]).split())
    return repr(text[:120] + "…" if len(text) > 120 else text)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if any(fields[key] != value for key, value in pairs):
        raise ValueError("a key stands twice")
    return fields


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys)


def _arguments(value: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a tool call, which some APIs give as JSON in a text; any other object as it is."""
    for key in ("arguments", "parameters"):
        if isinstance(value.get("name"), str) and value.keys() - {"id", "type"} == {"name", key}:
            given = value[key]
            try:
                given = _DECODER.decode(given) if isinstance(given, str) else given
            except (ValueError, RecursionError):
                given = None
            if not isinstance(given, dict):
                raise Unparsable("expected a JSON object, got a tool call without one")
            return given
    return value


def choice(text: str, options: Mapping[str, str]) -> str:
    """Return the letter of an option: `answer_choice` of the only object, or a bare letter.

    In an object that is not valid JSON, such as one with quotes inside its reasoning, the value must end.

    Raises:
        Unparsable: there is none, it is not an option, or there are several.
    """
    text, wanted = without_reasoning(text), f"answer_choice, one of {', '.join(options)}"
    try:
        objects = decode(text)
    except Unparsable:
        value = agreed(re.findall(r'"answer_choice"\s*:\s*"([^"\n]*)"', text), "answer_choice")
    else:
        if objects:
            value = agreed([o["answer_choice"] for o in objects if "answer_choice" in o], "answer_choice")
        else:
            value = re.sub(
                r"^\s*(?:final\s+)?answer\s*(?::|is)\s*", "", complete_text(text, wanted), flags=re.IGNORECASE
            )
    letter = _letter(value, options)
    if letter is None:
        raise Unparsable(f"expected {wanted}, got {shown(str(value))}")
    return letter


def _letter(value: Any, options: Mapping[str, str]) -> str | None:
    if not isinstance(value, str):
        return None
    text = value.strip().strip("\"'*`.()[] \n")
    for key in options:
        if text.casefold() == key.casefold():
            return key
    named = [key for key, option in options.items() if option.strip().strip(".").casefold() == text.casefold()]
    if len(named) == 1:
        return named[0]
    # "B. text" and "(B) text", but not a word: "A fever" is not option A.
    match = re.match(r"[(\[]?(\w{1,8})\s*[.):\]]\s*(.*)", value.strip(), re.DOTALL)
    if not match or match[1] not in options:
        return None
    if match[2].strip().casefold() == options[match[1]].strip().casefold():
        return match[1]
    # Another letter after it: an option that is weighed, or the list of all; "A" before a word is an article.
    others = [key for key in options if key != match[1]]
    weighed = any(re.search(rf"(?<!\w){key}(?!\w)(?!(?<=A) [a-z])", match[2]) for key in others)
    return None if weighed else match[1]


def text_answer(text: str) -> str:
    """Return the text `answer` of the only object, or the whole output if it has no object.

    Raises:
        Unparsable: there is none, it is blank or a refusal, or there are several.
    """
    objects = decode(without_reasoning(text))
    if not objects:
        return complete_text(text, "answer")
    return worded(agreed([o["answer"] for o in objects if "answer" in o], "answer"), "answer")


def cited(text: str, count: int) -> list[int]:
    """Return the numbers of the documents that an answer rests on, as a model says: from 1 to `count`, each once.

    Numbers of documents that there are not are left out. Empty if the output says nothing of the kind.
    """
    try:
        objects = decode(without_reasoning(text))
    except Unparsable:
        return []
    named: list[Any] = next((o[CITED] for o in reversed(objects) if isinstance(o.get(CITED), list)), [])
    return list(dict.fromkeys(n for n in named if type(n) is int and 1 <= n <= count))


def query(text: str) -> str:
    """Return the text `query` of the only object, on one line.

    Raises:
        Unparsable: it is missing, blank, a refusal, or longer than `MAX_QUERY_CHARS`.
    """
    return " ".join(worded(only(text, "query"), "query", MAX_QUERY_CHARS).split())


# The key, and not a text that quotes it.
_KEY = re.compile(r'(?<!\\)"answer"\s*:\s*"')
_CHARACTERS = re.compile(r'(?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
_BLANKS = re.compile(r"\s*\Z")
_BEGINS = re.compile(r"\s*(?:```\w*\s*)?\{")


class AnswerText:
    """Takes an output in pieces, and gives the text of its `answer`, without blanks at its ends.

    What is given stays: nothing is taken back. An output that has no such object gives nothing.
    """

    def __init__(self) -> None:
        self._raw, self._given, self._start = "", 0, 0

    def feed(self, piece: str) -> str:
        """Take a piece; returns what it adds to the text."""
        self._raw += piece
        # What comes before an object may be reasoning, also without a mark where it begins: its drafts are no answer.
        if not self._given:
            mark = next(reversed([*MARKS.finditer(self._raw)]), None)
            if mark["opens"] if mark else not _BEGINS.match(self._raw):
                return ""
            self._start = mark.end() if mark else 0
        key = _KEY.search(self._raw, self._start)
        if key is None:
            return ""
        characters = _CHARACTERS.match(self._raw, key.end())
        text: str = json.loads(f'"{characters[0] if characters else ""}"', strict=False)
        # Half of a character that is written as two.
        text = text[:-1] if text and "\ud800" <= text[-1] <= "\udbff" else text
        text = _BLANKS.sub("", text.lstrip())
        added, self._given = text[self._given :], max(self._given, len(text))
        return added
