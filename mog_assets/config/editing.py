"""Write corpora and question sets as lines of a `mog.yaml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import yaml

Entry = Mapping[str, str | Sequence[str] | Mapping[str, str]]
STEP = "  "


def scalar(value: str) -> str:
    """A text as YAML, for any place: quoted where YAML would read something else (`no`, `1.10`, `a: b`, `a, b`)."""
    return yaml.safe_dump([value], allow_unicode=True, width=2**16, default_flow_style=True).strip()[1:-1]


def yaml_value(value: str | Sequence[str] | Mapping[str, str]) -> str:
    """Return a value of an entry as YAML on one line."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{scalar(key)}: {scalar(text)}' for key, text in value.items())}}}"
    return scalar(value) if isinstance(value, str) else f"[{', '.join(map(scalar, value))}]"


def block(name: str, entry: Entry, indent: str = STEP) -> str:
    """The lines of a corpus or question set."""
    inner = "".join(f"{indent}{STEP}{key}: {yaml_value(value)}\n" for key, value in entry.items())
    return f"{indent}{scalar(name)}:\n{inner}"
