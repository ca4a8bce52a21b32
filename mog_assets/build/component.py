"""The graph as a Dagster component: its YAML holds what `mog.yaml` would hold, and the prefixes of its names.

Dagster imports this module to list components; what builds the graph is imported when a graph is built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import BaseModel, ConfigDict

from mog_assets.build.names import Names
from mog_assets.config import Settings, parse, settings_model
from mog_assets.resources.errors import ConfigError
from mog_assets.resources.printable import printable

_PREFIXES = {
    "key_prefix": {
        "description": "First parts of every asset key, and of the names of jobs, sensors and groups.",
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        "default": "",
    },
    "group_prefix": {
        "description": "Begins every group name; by default as key_prefix.",
        "anyOf": [{"type": "string"}, {"type": "null"}],
        "default": None,
    },
}
_TEMPLATE = {"type": "string", "pattern": r"\{\{"}
_EXAMPLE = {"key_prefix": "mog", "home": ".mog", "corpora": {"documents": {"path": "documents"}}}


class _Scaffolder(dg.Scaffolder):
    """Writes a `defs.yaml` that loads."""

    def scaffold(self, request: dg.ScaffoldRequest) -> None:
        dg.scaffold_component(request, _EXAMPLE)


class RetrievalAttributes(BaseModel):
    """The keys of `mog.yaml`, `key_prefix` and `group_prefix`.

    They are taken as written, and checked when templates have been filled in, so that messages are those of `mog`.
    """

    model_config = ConfigDict(extra="allow")

    @classmethod
    def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
        """Return the schema of the settings, for editors and `dg check yaml`; templates are allowed."""
        schema = settings_model().model_json_schema(*args, **options)
        schema["properties"] = {**_PREFIXES, **schema["properties"]}
        filled: dict[str, Any] = _or_template(schema)
        return {**filled, "title": cls.__name__, "description": cls.__doc__, "examples": [_EXAMPLE]}


@dg.scaffold_with(_Scaffolder)
@dataclass(frozen=True)
class Retrieval(dg.Component):
    """Retrieval with a chunk size chosen per question: the asset graph of mog-assets over your documents.

    `attributes` are the keys of `mog.yaml`, `key_prefix` and `group_prefix`. Relative paths are relative to the folder
    of the YAML file.

    Attributes:
        settings: The settings.
        names: What the parts of the graph are called.

    Example:
        type: mog_assets.Retrieval
        attributes: {corpora: {handbook: {path: docs/}}, key_prefix: support}
    """

    settings: Settings
    names: Names = Names()

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """Return the attributes of the YAML file."""
        return RetrievalAttributes

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """Return what the component makes."""
        return dg.ComponentTypeSpec(produces=["asset", "asset_check", "job", "resource", "schedule", "sensor"])

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> Retrieval:
        """Return the component of a YAML file.

        Args:
            attributes: Its attributes, as written.
            context: Where it is, and what its templates may name.

        Raises:
            ConfigError: an attribute is unknown or has an invalid value.
        """
        source = _source(context)
        values = _filled_in(attributes.model_extra or {} if attributes else {}, context.resolution_context, "", source)
        prefixes = {name: values.pop(name) for name in _PREFIXES if name in values}
        try:
            names = Names.under(**prefixes)
        except ConfigError as error:
            raise ConfigError(f"configuration {printable(source)}: {error}") from error
        return cls(parse(values, source), names)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return assets, checks, jobs, sensors, schedule and resource of the graph."""
        from mog_assets.build.automation import build
        from mog_assets.build.sensors import Host

        return build(self.settings, Host(self.names, lambda: self.settings, alone=False))


def _source(context: dg.ComponentLoadContext) -> Path:
    tree = context.resolution_context.source_position_tree
    return Path(tree.position.filename) if tree else context.path / "defs.yaml"


def _filled_in(value: Any, context: dg.ResolutionContext, key: str, source: Path) -> Any:
    """Return a value with its templates filled in; a text without a template stays as it is, even if it is a number."""
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise ConfigError(
                    f"configuration {printable(source)}: {key or 'attributes'}: expected keys that are texts, "
                    f"got {name!r}: write it in quotes"
                )
        return {
            name: _filled_in(entry, context.at_path(name), f"{key}.{name}".lstrip("."), source)
            for name, entry in value.items()
        }
    if isinstance(value, list):
        return [_filled_in(entry, context.at_path(i), f"{key}.{i}", source) for i, entry in enumerate(value)]
    if isinstance(value, str):
        value = context.resolve_value(value) if "{{" in value or "{%" in value else value
    if value is not None and not isinstance(value, str | bool | int | float | list | dict):
        raise ConfigError(
            f"configuration {printable(source)}: {key}: expected text, a number, a list or keys with values, "
            f"got {type(value).__name__}"
        )
    return value


def _or_template(schema: Any) -> Any:
    """Return a JSON schema in which a template may stand for any value that is no free text."""
    if isinstance(schema, list):
        return [_or_template(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    within = {name: part if name in ("default", "enum") else _or_template(part) for name, part in schema.items()}
    if "prefixItems" in within:
        # Dagster, which makes an example of every schema, expects a list to have them.
        within.setdefault("items", within["prefixItems"][0])
    if "enum" in within or within.get("type") in ("integer", "number", "boolean", "array"):
        return {"anyOf": [within, _TEMPLATE]}
    return within
