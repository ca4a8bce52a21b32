"""The section `corpora` of `mog.yaml`: where the documents of a corpus are, and how they are read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationInfo,
    model_validator,
)

from mog_assets import registry
from mog_assets.registry import Registry
from mog_assets.resources.settings import Place, SettingsModel, absolute

# The key of an asset, its parts joined by `/`.
AssetName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$")]


@dataclass(frozen=True)
class Listed:
    """List the names in a registry in the JSON schema of a text."""

    registry: Registry[Any]

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the schema with the names."""
        return {**handler(schema), "enum": [*self.registry]}


def _address(text: str, info: ValidationInfo) -> str:
    scheme, sign, place = text.partition("://")
    if not sign or not place:
        raise ValueError("an address such as scheme://place")
    registry.SOURCES.check(scheme)
    if registry.SOURCES[scheme].is_file:
        return f"{scheme}://{absolute(Path(place), info)}"
    # `git@` is whom every host of repositories calls its callers by SSH.
    if re.match("(?!git@)[^/@]*@|[^@]*:[^@]*@", place):
        raise ValueError("an address without a user and password: credentials come from the environment")
    return text


def _encoding(name: str) -> str:
    try:
        "a".encode(name)
    except (LookupError, ValueError):
        raise ValueError("an encoding of Python, such as cp949, cp932, gb18030, big5 or cp1252") from None
    return name


def _one_place(schema: dict[str, Any]) -> None:
    schema["required"].remove("path")
    schema["oneOf"] = [{"required": ["path"]}, {"required": ["source"]}]


class CorpusSettings(SettingsModel):
    """The source of one corpus: a `.jsonl[.gz]`, `.csv` or `.tsv` file, or a folder of documents, by its `path`.

    Or an address of another `source`, `scheme://place`: see `mog_assets.documents.sources`. `path` is then where its
    items are copied to.

    A document (a file, a line of a `.jsonl` file, or a row of a table) over `max_document_mb` megabytes is skipped.
    So is a file of another kind than text (PDF, Word, …) that needs more than `max_seconds` or `max_memory_mb` to be
    parsed, or that unpacks to more than `max_unpacked_mb`. Readers whose models need more have other defaults.

    All documents are analysed in the `language` (an ISO 639-1 code), with `auto` each in its own, as it is detected.

    Files of text that are not UTF-8, and have no byte order mark, are read in the `encoding`, if one is named.

    `columns` names the columns of tables, and keys of lines, that are called otherwise than `id`, `title` and `text`.

    Assets `upstream`, by their keys, are those of the Dagster project that the graph is merged into that write the
    documents. Elsewhere they have no effect.
    """

    model_config = ConfigDict(json_schema_extra=_one_place)

    path: Place
    source: Annotated[str, AfterValidator(_address)] | None = None
    max_document_mb: float = Field(20, gt=0, le=1e6)
    reader: Annotated[str, AfterValidator(registry.READERS.check), Listed(registry.READERS)] = "plain"
    # Other readers have other defaults.
    max_seconds: float = Field(60, gt=0, le=1e6)
    max_memory_mb: float = Field(2048, ge=256, le=1e7)
    max_unpacked_mb: float = Field(200, gt=0, le=1e6)
    language: str = Field("auto", pattern=r"^(auto|[a-z]{2,3})$")
    encoding: Annotated[str, AfterValidator(_encoding)] | None = None
    columns: dict[Literal["id", "title", "text"], str] = {}
    upstream: list[AssetName] = []

    @model_validator(mode="before")
    @classmethod
    def _roomy(cls, value: Any) -> Any:
        reader = value.get("reader") if isinstance(value, dict) else None
        if not isinstance(reader, str) or reader not in registry.READERS:
            return value
        return {**registry.READERS[reader].limits, **value}

    @model_validator(mode="before")
    @classmethod
    def _of_one_place(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "pushed" in value:
            raise ValueError('source: "pushed://FILE" in place of the key `pushed`')
        if value.get("source") is None:
            return value
        if value.get("path") is not None:
            raise ValueError("either a path or a source")
        # Where its items are copied to is known when all settings are.
        return {**value, "path": "source"}

    @property
    def max_document_bytes(self) -> int:
        """The maximum size of a document, in bytes."""
        return int(self.max_document_mb * 1_000_000)
