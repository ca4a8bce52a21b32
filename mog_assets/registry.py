"""The door: all that can be added, each kind a registry of values by name.

A package names a module as an entry point, and that module registers values, or says which modules do:

    [project.entry-points."mog_assets.plugins"]
    theirs = "their_package.plugin"

    registry.CHUNKERS.register("verses", Chunker(...))
    registry.COMMANDS.add_modules("their_package.commands")

The papers and plugins of this package come in the same way; the modules that are named here are those of the core.
What each value is: docs/plugins.md; a package with some: examples/plugin.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from mog_assets.resources.errors import ConfigError
from mog_assets.resources.registry import ENCODER_FORMS as ENCODER_FORMS
from mog_assets.resources.registry import ENCODER_KEYS as ENCODER_KEYS
from mog_assets.resources.registry import ENCODERS as ENCODERS
from mog_assets.resources.registry import ENGINES as ENGINES
from mog_assets.resources.registry import FAMILIES as FAMILIES
from mog_assets.resources.registry import PLUGINS as PLUGINS
from mog_assets.resources.registry import RERANKER_FORMS as RERANKER_FORMS
from mog_assets.resources.registry import TRACERS as TRACERS
from mog_assets.resources.registry import Registry as Registry

# Sections of mog.yaml beside those of `config.Settings`.
SECTIONS: Registry[Any] = Registry("section")
_COMMANDS = ("search", "build", "documents", "questions", "measure", "serve", "init")
COMMANDS: Registry[Any] = Registry("command", *(f"mog_assets.cli.{name}" for name in _COMMANDS))
# Functions that add routes to the HTTP server.
ROUTES: Registry[Any] = Registry("set of routes")
# Functions of a problem and the path of the request: fields of an error that clients of that path read.
ERROR_FIELDS: Registry[Any] = Registry("set of fields of errors")
# Functions of the settings that open what is told which questions an open project answered.
OBSERVERS: Registry[Any] = Registry("observer")
# Functions that add tools to the MCP server, which the plugin `agents` has.
MCP_TOOLS: Registry[Any] = Registry("set of tools for agents")
# Flags of `mog serve`, and of the plugin `agents`: see `serve.hooks`.
SERVER_FLAGS: Registry[Any] = Registry("flag of the server")
# Functions and properties that an open project has beside its own.
PROJECT_ATTRIBUTES: Registry[Any] = Registry("attribute of projects")
# Functions of the settings that open what says who may see which documents, or give None.
AUTHORIZERS: Registry[Any] = Registry("authorizer")
# Functions of the settings that give findings of `mog doctor`, which the plugin `upkeep` has.
FINDINGS: Registry[Any] = Registry("check of a project")
CHUNKERS: Registry[Any] = Registry("chunker", "mog_assets.text.chunkers")
# Readers of foreign data sets, each a command `mog import NAME`, which the plugin `datasets` has.
IMPORTERS: Registry[Any] = Registry("importer")
QUESTION_SOURCES: Registry[Any] = Registry("source of questions", "mog_assets.questions.sources")
# Formats of tables of questions by suffix, beside those of the core (`records.QuestionTable`).
QUESTION_TABLES: Registry[Any] = Registry("format of questions")
SOURCES: Registry[Any] = Registry("source", "mog_assets.documents.sources")
FORMATS: Registry[Any] = Registry("format", "mog_assets.documents.formats.builtin")
# Formats of files that have many documents, each of them as a file of its own.
CONTAINERS: Registry[Any] = Registry("format of many documents")
# Functions of an open PDF file (of pypdfium2) that give the texts of a form which its pages do not show.
READERS: Registry[Any] = Registry("reader", "mog_assets.documents.formats.kinds")
# The others are those of retrievers and levels, such as `bm25-1`.
_RETRIEVERS = ("bm25", "dense", "title")
EXPERTS: Registry[Any] = Registry("expert", "mog_assets.search.experts", reserved=_RETRIEVERS)
METHODS: Registry[Any] = Registry("kind of method", "mog_assets.search.builtin_methods")
# Methods by other names for them.
METHOD_NAMES: Registry[str] = Registry("name of a method")
GROUPS: Registry[Any] = Registry("group of methods", "mog_assets.search.builtin_methods")
# Suffixes of methods that limit each question to some chunks.
LIMITS: Registry[Any] = Registry("limit of methods")
# Names for filters that documents have through their chunks.
FIELDS: Registry[Any] = Registry("field of filters")
MEASURES: Registry[Any] = Registry("measure", "mog_assets.evaluate.measures")
# Functions of the settings: the assets that a room reads (`demand.Demand`).
DEMANDS: Registry[Any] = Registry("demand", "mog_assets.search.builtin_methods", "mog_assets.answer.notation")
# Tables beside the runs of methods (`runs.RunTable`).
RUN_TABLES: Registry[Any] = Registry("table of runs", reserved=("runs",))
# Stores of vectors beside the files of the store.
VECTOR_STORES: Registry[Any] = Registry("vector store")


@dataclass(frozen=True)
class Stage:
    """Recipes of assets, called with the settings; their module is imported once one of them is needed.

    Attributes:
        module: Has a function `recipes` of the settings.
        keys: Of the assets; one that ends in `/` is the beginning of several.
        results: Those of the keys that are built for their own sake.
        others: Whether it may have more, such as those of methods that packages add.
    """

    module: str
    keys: tuple[str, ...]
    results: tuple[str, ...] = ()
    others: bool = False

    def declares(self, key: str) -> bool:
        """Return whether an asset is among these."""
        return any(key == own or (own.endswith("/") and key.startswith(own)) for own in self.keys)

    def __call__(self, settings: Any) -> list[Any]:
        """Return the recipes for some settings."""
        recipes: list[Any] = importlib.import_module(self.module).recipes(settings)
        others = [] if self.others else [recipe.key for recipe in recipes if not self.declares(recipe.key)]
        if others:
            raise ConfigError(
                f"stage {self.module}: expected recipes of {', '.join(self.keys)}, got {others[0]}: name it"
            )
        return recipes


# Recipes of assets, given the settings, after those of the core (`plan.STAGES`): a `Stage`, or a function.
RECIPES: Registry[Any] = Registry("stage")
EXPERIMENTS: Registry[Any] = Registry("experiment")
# Readers of answers.
ANSWER_READERS: Registry[Any] = Registry("reader of answers", "mog_assets.answer.readers")
# Measures of answers beside those of the core.
ANSWER_MEASURES: Registry[Any] = Registry("measure of answers")
# Functions of the resources, a question and those before it, each with its answer: they give one that stands alone.
FOLLOW_UPS: Registry[Any] = Registry("reader of conversations")
# What marks answers where `answering.judge` is set (`rows.Judge`).
JUDGES: Registry[Any] = Registry("judge of answers")
WAYS: Registry[Any] = Registry("way of answering", "mog_assets.answer.answerers")
