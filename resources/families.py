"""What models expect: words before questions and passages, and how a vector is made of the tokens' vectors.

A model that was published with sentence-transformers says so in its files; of families that do not, a name tells it,
if they are registered (`registry.FAMILIES`).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mog_assets.resources.registry import FAMILIES

Pooling = Literal["mean", "cls", "last"]


@dataclass(frozen=True)
class Family:
    """How models are used.

    Attributes:
        query: Words before a question.
        passage: Words before a passage.
        pooling: Whether a vector is the mean of the tokens' vectors, or that of the first or last one.
    """

    query: str = ""
    passage: str = ""
    pooling: Pooling = "mean"


def family(model: str, files: Path | None = None) -> Family:
    """How a model is used.

    Args:
        model: Its name, or its folder.
        files: Folder of `config_sentence_transformers.json` and `1_Pooling/config.json`, if they are there.
    """
    name = model.rstrip("/").rpartition("/")[2].lower()
    known = next((its for pattern, its in FAMILIES.items() if re.search(pattern, name)), Family())
    prompts = _read(files, "config_sentence_transformers.json").get("prompts") or {}
    pooled = _read(files, "1_Pooling/config.json")
    return Family(
        _text(prompts, ("query", "search_query"), known.query),
        _text(prompts, ("document", "passage", "search_document"), known.passage),
        _pooling(pooled, known.pooling),
    )


def _text(prompts: Any, names: tuple[str, ...], known: str) -> str:
    values = [prompts[name] for name in names if isinstance(prompts, dict) and isinstance(prompts.get(name), str)]
    # Files that name prompts and leave them empty mean those of the card.
    return next(filter(None, values), known)


def _pooling(pooled: dict[str, Any], known: Pooling) -> Pooling:
    modes: tuple[tuple[str, Pooling], ...] = (
        ("pooling_mode_cls_token", "cls"),
        ("pooling_mode_lasttoken", "last"),
        ("pooling_mode_mean_tokens", "mean"),
    )
    return next((mode for name, mode in modes if pooled.get(name) is True), known)


def _read(folder: Path | None, name: str) -> dict[str, Any]:
    if folder is None or not (folder / name).is_file():
        return {}
    try:
        values = json.loads((folder / name).read_text(encoding="utf-8"))
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}
