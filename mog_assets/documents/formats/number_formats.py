"""Show numbers of sheets by their formats (ISO 29500-1, 18.8.30 and 18.8.31), where these change what a value says."""

from __future__ import annotations

import re
from collections.abc import Callable

Show = Callable[[float], str]
# Formats that a workbook need not spell.
_KNOWN = {"9": "0%", "10": "0.00%"}
_CURRENCY = re.compile(r"\[\$([^\]-]*)[^\]]*\]")
# Colours, conditions, widths of signs; not `[h]`.
_UNSHOWN = re.compile(r"\[(?!h+\]|m+\]|s+\])[^\]]*\]|_.|\*.", re.IGNORECASE)
_LITERAL = re.compile(r'"([^"]*)"|\\(.)')
_DIGITS = re.compile(r"[0#?]")
# Where nothing but digits and signs between them is shown, such as `000-00-0000`; where else a number stands.
_CODE, _NUMBER = re.compile(r"[^.,%/eE@A-Za-z]*"), re.compile(r"[0#?][0#?.,]*")


number: Show = "%.15g".__mod__
"""Show a number as it is stored, with the 15 digits that sheets compute with."""


def shown(identity: str, code: str) -> Show | None:
    """What shows the numbers that have a format; None if it is `number`, and for days and times.

    Args:
        identity: Of the format.
        code: Its code; empty if the workbook does not spell it.
    """
    # The first section is for positive numbers; signs of the others are those of the number here.
    code = _UNSHOWN.sub("", _CURRENCY.sub(r'"\1"', code or _KNOWN.get(identity, ""))).split(";")[0]
    bare = _LITERAL.sub("", code).lower()
    if not bare or re.search("[ymdhs@]|general|e[-+]|/", bare):
        return None
    if "%" in bare:
        decimals = max(2, len(re.sub(r"[^0#?]", "", bare.partition(".")[2])))
        return lambda value: f"{number(round(value * 100, decimals))}%"
    literal = [match[1] or match[2] or "" for match in _LITERAL.finditer(code)]
    if _CODE.fullmatch(bare) and bare.count("0") > 1:
        return lambda value: _filled(code, bare.count("0"), value)
    if not any(text.strip() for text in literal):
        return None
    plain = _LITERAL.sub(lambda match: match[1] or match[2] or "", _NUMBER.sub("\0", code, count=1))
    return lambda value: plain.replace("\0", number(value), 1).strip() if "\0" in plain else number(value)


def _filled(code: str, zeros: int, value: float) -> str:
    """A whole number with leading zeros and the signs between its digits: 1067 as `01067`."""
    if not value.is_integer() or abs(value) >= 1e15:
        return number(value)
    digits, pieces = list(str(abs(int(value))).zfill(zeros)), list[str]()
    signs = [match[1] or match[2] or match[0] for match in re.finditer(r'"([^"]*)"|\\(.)|.', code)]
    places = sum(map(bool, map(_DIGITS.fullmatch, signs)))
    for sign in reversed(signs):
        if not _DIGITS.fullmatch(sign):
            pieces.append(sign if digits else "")
        elif digits:
            # What has no place of its own stands at the first.
            pieces.append("".join(digits) if places == 1 else digits.pop())
            places -= 1
    return "-" * (value < 0) + "".join(reversed(pieces)).strip()
