"""Read letters of multiple choice from outputs exactly as the MIRAGE benchmark does, so that results can be compared.

It is lenient where our own scoring is strict: an output without a letter counts as A.

References: Xiong et al. 2024 (Benchmarking Retrieval-Augmented Generation for Medicine), `evaluate.py` of MIRAGE.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mog_assets.evaluate.answers import ANSWER_MEASURES, AnswerMeasure
from mog_assets.questions.sets import Question

_LETTERS = frozenset("ABCD")
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
    """Return letter that MIRAGE parses from an output: A if it finds none; None for an empty output, which is wrong."""
    if not output:
        return None
    ending = output.split(_MARK)[-1].strip()
    return next((match[1] for rule in _RULES if (match := rule.search(ending))), "A")


def _right(row: Mapping[str, Any], question: Question) -> float:
    """Mark the raw output: 1 if MIRAGE reads the right letter in it; it finds one in every output but an empty one."""
    return float(choice(row["raw"]) == question.answer)


def _lettered(question: Question) -> bool:
    return bool(question.options) and _LETTERS.issuperset(question.options)


ANSWER_MEASURES.register("mirage", AnswerMeasure(_right, _lettered))
