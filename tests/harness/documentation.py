"""Reads blocks of code and their output from the documentation."""

import re

import pytest

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page, language):
    return [body for name, body in _BLOCK.findall(page.read_text(encoding="utf-8")) if name == language]


_NUMBER = re.compile(r"\d+\.\d{3}")


def matches(shown, printed):
    """Whether a page shows what was printed.

    `…` stands for anything, and blanks count once. Figures may differ by .03: processors round vectors differently.
    """
    text = re.escape(" ".join(shown.split())).replace("…", ".*?")
    pattern = re.sub(r"\d+\\\.\d{3}", r"(\\d+\\.\\d{3})", text)
    found = re.search(pattern, " ".join(printed.split()), re.DOTALL)
    wanted = [float(number) for number in _NUMBER.findall(shown)]
    return bool(found) and [float(number) for number in found.groups()] == pytest.approx(wanted, abs=0.03)
