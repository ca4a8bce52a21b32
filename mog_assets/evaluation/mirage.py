"""Read letters of multiple choice from outputs exactly as the MIRAGE benchmark does, so that results can be compared.

It is lenient where our own scoring is strict: an output without a letter counts as A.

References: Xiong et al. 2024 (Benchmarking Retrieval-Augmented Generation for Medicine), `evaluate.py` of MIRAGE.
"""

from __future__ import annotations

import re

LETTERS = frozenset("ABCD")
_MARK = '"answer_choice": "'
# Tried in this order; the first match of the first pattern that matches is used.
_RULES = tuple(
    re.compile(rule)
    for rule in (
        r"^\s*([ABCD])$",
        r"^\s*([ABCD]) or",
        r"^\s*([ABCD]) and",
        r"^\s*([ABCD])/",
        r"^\s*([ABCD]),",
        r"[Oo]ption ([ABCD])",
        r":\s*([ABCD])",
        r"^\s*([ABCD])\.",
        r"^\s*([ABCD])\"",
        r"^\s*([ABCD]):",
    )
)


def choice(output: str | None) -> str | None:
    """The letter that MIRAGE parses from an output: A if it finds none; None for an empty output, which is wrong."""
    if not output:
        return None
    said = output.split(_MARK)[-1].strip()
    return next((match[1] for rule in _RULES if (match := rule.search(said))), "A")
