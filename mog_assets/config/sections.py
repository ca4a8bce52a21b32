"""The sections of `mog.yaml`.

Defaults are those of the paper (Zhong et al. 2024, Mix-of-Granularity) unless the field says otherwise.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    Field,
    model_validator,
)

from mog_assets import registry
from mog_assets.config.corpora import Listed
from mog_assets.resources.settings import Count, NamedSettings, Place, SettingsModel

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def check_name(value: str) -> str:
    """Return the name of a corpus or question set.

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


MOST_LEVELS = 8

Name = Annotated[str, AfterValidator(check_name)]
RetrieverName = Literal["bm25", "dense", "hybrid"]


class ChunkerSettings(NamedSettings):
    """Splitting of texts into level-1 chunks: by a registered chunker, with target length `finest_chars`.

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
    """Knowledge and training of rankings: at most `questions` training questions of each question set.

    A share `validation` of the documents decides when the training of `mog` stops. `experts` are what rankings use
    besides BM25, vectors and titles: `mention` (what the best texts name), `pagerank` (walks along it), or experts of
    other packages, which count in trained rankings only.
    """

    experts: list[Annotated[str, AfterValidator(registry.EXPERTS.check)]] = ["mention", "pagerank"]
    questions: Count = 4000
    validation: float = Field(0.1, gt=0, lt=1)


class AnsweringSettings(SettingsModel):
    """Ways of answering test questions.

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
    """Change after which all is measured again, and models are trained: a share `training`.

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
