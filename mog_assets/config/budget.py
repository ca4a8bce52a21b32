"""Budgets of passages: so many characters, or so many tokens of what reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

from mog_assets.resources.errors import ConfigError
from mog_assets.resources.settings import MOST

_TOKENS = re.compile(r"([1-9][0-9]{0,8}) tokens?")
_EXPECTED = "an integer of at least 1, which are characters, or tokens, as '1000 tokens'"


@dataclass(frozen=True)
class Budget:
    """Limit of the passages that are taken.

    Attributes:
        amount: At least 1.
        tokens: Whether it is in tokens instead of characters.
    """

    amount: int
    tokens: bool = False

    @classmethod
    def of(cls, value: int | str | Budget) -> Budget:
        """Return a budget as it is written: `4000` characters, or `"1000 tokens"`."""
        budget = value if isinstance(value, Budget) else _read(value)
        if budget is None:
            raise ConfigError(f"budget: expected {_EXPECTED}, got {value!r}")
        return budget

    def share(self, part: int, total: int) -> Budget:
        """Return `part` of `total` of it, rounded down; at least 1."""
        return Budget(max(1, self.amount * part // total), self.tokens)

    def __str__(self) -> str:
        return f"{self.amount} tokens" if self.tokens else str(self.amount)


def _read(value: int | str) -> Budget | None:
    if type(value) is int and 1 <= value <= MOST:
        return Budget(value)
    match = _TOKENS.fullmatch(value.strip()) if isinstance(value, str) else None
    return Budget(int(match[1]), tokens=True) if match else None


def _written(value: int | str) -> int | str:
    if _read(value) is None:
        raise ValueError(_EXPECTED)
    return value


# As it is written in settings and requests.
Written = Annotated[
    int | str,
    AfterValidator(_written),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": _TOKENS.pattern}]}),
]
