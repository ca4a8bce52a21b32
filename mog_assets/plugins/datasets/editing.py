"""Add corpora and question sets to the text of a `mog.yaml`: comments, order and everything else stay."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from mog_assets.cli.init import STEP, Entry, block, scalar
from mog_assets.resources.errors import ConfigError


def _flow(name: str, entry: Entry) -> str:
    return f"{scalar(name)}: {{{', '.join(f'{key}: {scalar(value)}' for key, value in entry.items())}}}"


def with_entry(text: str, section: str, name: str, entry: Entry) -> str:
    """Return the text of a configuration with one more corpus or question set, after the others.

    Args:
        text: Of a valid configuration.
        section: `corpora` or `question_sets`; the latter is made if there is none, below `corpora`.
        name: Of the new entry.
        entry: Its keys and values.

    Raises:
        ConfigError: the place cannot be found, as with YAML aliases; the message has the lines to add.
    """
    line_end = "\r\n" if "\r\n" in text else "\n"
    try:
        before = yaml.safe_load(text)
        after = _inserted(text, section, name, entry, line_end)
        wanted = copy.deepcopy(before)
        wanted[section] = {**(wanted.get(section) or {}), name: {k: _plain(v) for k, v in entry.items()}}
        if yaml.safe_load(after) == wanted:
            return after
    # A text that is no longer YAML, or a section of another kind.
    except (yaml.YAMLError, AttributeError, TypeError, ValueError):
        pass
    lines = " / ".join(line.rstrip() for line in f"{section}:\n{block(name, entry)}".splitlines())
    raise ConfigError(f"expected a plain section `{section}` to add {name!r} to; add these lines yourself: {lines}")


def _plain(value: str | Sequence[str] | Mapping[str, str]) -> Any:
    return value if isinstance(value, str) else dict(value) if isinstance(value, Mapping) else list(value)


def _inserted(text: str, section: str, name: str, entry: Entry, line_end: str) -> str:
    root = yaml.compose(text, yaml.SafeLoader)
    pairs = {key.value: (key, value) for key, value in root.value}
    if section not in pairs:
        if root.flow_style:
            return _in_brackets(text, root, f"{section}: {{{_flow(name, entry)}}}")
        left = " " * root.value[0][0].start_mark.column
        lines = f"\n{left}{section}:\n{block(name, entry, left + STEP)}"
        return _with_lines(text, pairs["corpora"][1].end_mark.index, left, lines, line_end)
    key, value = pairs[section]
    left = " " * key.start_mark.column
    if isinstance(value, yaml.ScalarNode):
        # Nothing, `null` or `~`.
        text = text[: value.start_mark.index] + text[value.end_mark.index :]
        return _with_lines(text, key.end_mark.index, left, block(name, entry, left + STEP), line_end)
    if value.flow_style:
        return _in_brackets(text, value, _flow(name, entry))
    indent = " " * value.value[0][0].start_mark.column
    return _with_lines(text, value.end_mark.index, left, block(name, entry, indent), line_end)


def _in_brackets(text: str, node: yaml.CollectionNode, added: str) -> str:
    at = node.end_mark.index - 1
    comma = "" if not node.value else " " if text[:at].rstrip().endswith(",") else ", "
    return f"{text[:at]}{comma}{added}{text[at:]}"


def _with_lines(text: str, at: int, left: str, lines: str, line_end: str) -> str:
    """Return text with lines before `at`, or after its line, and before blank lines and comments not indented."""
    if at and text[at - 1] != "\n":
        at = text.find("\n", at) + 1 or len(text)
    before = text[:at].splitlines(keepends=True)
    while not before[-1].strip() or (before[-1].lstrip().startswith("#") and not before[-1].startswith(left + " ")):
        at -= len(before.pop())
    start = "" if text[at - 1] == "\n" else line_end
    return f"{text[:at]}{start}{lines.replace(chr(10), line_end)}{text[at:]}"
