"""The sections of `mog.yaml`.

Defaults are those of the paper (Zhong et al. 2024, Mix-of-Granularity) unless the field says otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    create_model,
    model_validator,
)

from mog_assets import registry
from mog_assets.registry import Registry
from mog_assets.resources.settings import Count, NamedSettings, SettingsModel

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def check_name(value: str) -> str:
    """The name of a corpus or question set.

    Raises:
        ValueError: it is not allowed; the message is what is expected.
    """
    # Names become folder names, partition keys and payload values.
    if not _NAME.fullmatch(value):
        raise ValueError("a name of 1 to 64 letters, digits, '.', '_' or '-', starting with a letter or digit")
    return value


def _cron(value: str) -> str:
    # Imported by those who set a time. The same library as Dagster's.
    from croniter import CroniterError, croniter

    try:
        fields, _ = croniter.expand(value)
        # A day that never comes, as the 30th of February, is an error too.
        croniter(value).get_next()
    except CroniterError:
        fields = []
    if len(fields) != 5:
        raise ValueError(
            "a cron expression of five fields (minute, hour, day of month, month, day of week), each with values in "
            "its range"
        )
    return value


def _timezone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("a time zone of the IANA database, such as UTC or Europe/Zurich") from None
    return value


@dataclass(frozen=True)
class Listed:
    """List the names in a registry in the JSON schema of a text."""

    registry: Registry[Any]

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the schema with the names."""
        return {**handler(schema), "enum": [*self.registry]}


MOST_LEVELS = 8


def _path(value: Any) -> Any:
    # An empty path would be the folder of mog.yaml.
    if isinstance(value, str) and not value.strip():
        raise ValueError("a path")
    return value


Place = Annotated[Path, BeforeValidator(_path)]
Name = Annotated[str, AfterValidator(check_name)]
# The key of an asset, its parts joined by `/`.
AssetName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$")]
RetrieverName = Literal["bm25", "dense", "hybrid"]


def _address(text: str) -> str:
    scheme, sign, place = text.partition("://")
    if not sign or not place:
        raise ValueError("an address such as scheme://place")
    registry.SOURCES.check(scheme)
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


def _places() -> tuple[str, ...]:
    return "path", "source", *registry.SOURCE_FILES


def _one_place(schema: dict[str, Any]) -> None:
    schema["required"].remove("path")
    schema["oneOf"] = [{"required": [place]} for place in _places()]


class CorpusSettings(SettingsModel):
    """The source of one corpus: a `.jsonl[.gz]`, `.csv` or `.tsv` file, or a folder of documents, by its `path`.

    Or an address of another `source`, `scheme://place`: see `mog_assets.documents.sources`; or the file of such a
    source that has a key of its own. `path` is then where its items are copied to.

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
        given = [place for place in _places() if value.get(place) is not None]
        if len(given) > 1:
            raise ValueError(f"one of {', '.join(_places())}")
        # Where its items are copied to is known when all settings are.
        return value if given in ([], ["path"]) else {**value, "path": "source"}

    @property
    def max_document_bytes(self) -> int:
        """The maximum size of a document, in bytes."""
        return int(self.max_document_mb * 1_000_000)


def corpus_settings() -> type[CorpusSettings]:
    """Return the settings of a corpus with the keys of all parts that are installed."""
    keys: dict[str, Any] = dict.fromkeys(registry.SOURCE_FILES, (Place | None, None))
    options: dict[str, Any] = {"__base__": CorpusSettings, "__module__": __name__}
    return create_model("CorpusSettings", __doc__=CorpusSettings.__doc__, **options, **keys)


class ChunkerSettings(NamedSettings):
    """How texts are split into level-1 chunks: by a registered chunker, with target length `finest_chars`.

    `fixed` counts `tokens` (words and punctuation marks) instead of characters if that is set.
    """

    main: ClassVar[str] = "name"

    name: Annotated[str, AfterValidator(registry.CHUNKERS.check)] = "sentences"
    tokens: Count | None = None

    @model_validator(mode="after")
    def _counted(self) -> ChunkerSettings:
        if self.tokens is not None and self.name != "fixed":
            raise ValueError(f"tokens only with the chunker 'fixed', not with {self.name!r}")
        return self


class QuestionSetSettings(SettingsModel):
    """Questions that are retrieved over `corpora` together.

    They come from the file `path`; or from another `source`.
    `columns` names the columns of a table that are called otherwise than our fields.

    `train` and `test` name the splits for training and testing. No split may be in both: training questions are never
    scored. If neither is given, the splits are `train` and `test`, or those of the source; questions without a split
    are divided between `train` and `test` by document, or are all in the one of them that is named. With `kinds`,
    questions of other kinds are left out.
    """

    source: Annotated[str, AfterValidator(registry.QUESTION_SOURCES.check), Listed(registry.QUESTION_SOURCES)] = "file"
    path: Place | None = None
    columns: dict[str, str] = {}
    corpora: list[Name] = Field(min_length=1)
    kinds: list[str] | None = None
    train: list[str] = []
    test: list[str] = []

    @model_validator(mode="before")
    @classmethod
    def _divided(cls, value: Any) -> Any:
        if isinstance(value, dict) and not {"train", "test"} & set(value):
            source = registry.QUESTION_SOURCES.get(str(value.get("source")))
            uses = ("train", "test") if source is None or source.tests else ("train",)
            return {**{use: [use] for use in uses}, **value}
        return value

    @model_validator(mode="after")
    def _disjoint(self) -> QuestionSetSettings:
        if both := sorted(set(self.train) & set(self.test)):
            raise ValueError(f"splits used either for train or for test, not for both ({', '.join(both)})")
        return self

    @model_validator(mode="after")
    def _from_somewhere(self) -> QuestionSetSettings:
        if (self.source == "file") != (self.path is not None):
            others = " or ".join(sorted(repr(name) for name in registry.QUESTION_SOURCES if name != "file"))
            raise ValueError(f"either the path of a file, or the source {others}" if others else "the path of a file")
        return self


class Bm25Settings(SettingsModel):
    """BM25 in Lucene's form."""

    k1: float = Field(1.5, ge=0, le=1000)
    b: float = Field(0.75, ge=0, le=1)


class RankingSettings(SettingsModel):
    """What rankings know and are trained on: at most `questions` training questions of each question set.

    A share `validation` of the documents decides when the training of `mog` stops. `experts` are what rankings use
    besides BM25, vectors and titles: `mention` (what the best texts name), `pagerank` (walks along it), or experts of
    other packages, which count in trained rankings only.
    """

    experts: list[Annotated[str, AfterValidator(registry.EXPERTS.check)]] = ["mention", "pagerank"]
    questions: Count = 4000
    validation: float = Field(0.1, gt=0, lt=1)


class AnsweringSettings(SettingsModel):
    """What answers test questions, and how.

    `reader` is `extractive` (rules) or `neural` (a small network that comes with mog), which need no key, `trained`
    (the same network, trained on your own questions by the asset `reader`), or `openai`: the endpoint and model of
    `llm`. A method is a way of answering (`cot`, `one-step`, or one that a package registers), preceded by a
    retrieval method and an arrow if it is not `auto`: `fixed-2 → one-step`. Every run measures those that
    `methods` names; if it is left out, all are measured when `answers` is asked for. At most `questions` of each
    question set are answered. With `judge`, the reader also marks answers to open questions beside the reference
    answer and their passages.
    """

    reader: Annotated[str, AfterValidator(registry.ANSWER_READERS.check)] = "neural"
    methods: list[str] | None = None
    questions: Count | None = None
    judge: bool = False


class DriftSettings(SettingsModel):
    """How much may change before all is measured again, and models trained: a share `training`.

    It is one of the documents: since they were measured, and since models were trained on questions about them.
    """

    training: float = Field(0.05, ge=0, le=1)


# Somebody by e-mail, or a team, as Dagster names owners.
_OWNER = r"^(team:[^\s:]+|[^@\s]+@[^@\s]+\.[^@\s]+)$"


class AutomationSettings(SettingsModel):
    """Automation: how often corpora are checked for changes, and when everything is measured again.

    `nightly` is a cron expression of five fields in the time zone `timezone`; null disables the schedule. Unless
    `enabled`, sensors and schedule stay off until you switch them on in the Dagster UI. `owners` are those of every
    asset, `run_tags` of every run that a job, the schedule or the sensor starts. Assets that measure are not fresh any
    more, in Dagster's sense, when they were last looked at more than `measured_within_hours` ago.
    """

    enabled: bool = True
    interval_seconds: Count = 5
    nightly: Annotated[str, AfterValidator(_cron)] | None = "0 3 * * *"
    timezone: Annotated[str, AfterValidator(_timezone)] = "UTC"
    owners: list[Annotated[str, Field(pattern=_OWNER)]] = []
    run_tags: dict[str, str] = {}
    measured_within_hours: float | None = Field(None, gt=0, le=8760)
