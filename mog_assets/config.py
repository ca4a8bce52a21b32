"""`mog.yaml` as typed settings.

Every default is the paper's (Zhong et al. 2024, Mix-of-Granularity) unless the field says otherwise.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import reprlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from mog_assets import config_file
from mog_assets.config_file import check_home, encoder_source, resolved, shown
from resources.chat import LlmSettings
from resources.encoder import EncoderSettings
from resources.engine import EngineSettings
from resources.errors import ConfigError
from resources.settings import MOST, Count, SettingsModel

CONFIG_VARIABLE = "MOG_CONFIG"
DEFAULT_CONFIG = "mog.yaml"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def _name(value: str) -> str:
    # Names become folder names, partition keys and payload values.
    if not _NAME.fullmatch(value):
        raise ValueError("a name of 1 to 64 letters, digits, '.', '_' or '-', starting with a letter or digit")
    return value


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# Field, least and greatest value, names from the least value on.
_CRON_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)


def _cron(value: str) -> str:
    fields = value.lower().split()
    if len(fields) != len(_CRON_FIELDS):
        raise ValueError("a cron expression of five fields (minute, hour, day of month, month, day of week)")
    for field, (what, least, greatest, names) in zip(fields, _CRON_FIELDS, strict=True):
        numbers = {name: str(least + i) for i, name in enumerate(names)}
        for item in field.split(","):
            span, slash, step = item.partition("/")
            ends = [numbers.get(end, end) for end in span.split("-")] if span != "*" else [str(least), str(greatest)]
            plain = all(end.isascii() and end.isdigit() for end in ends) and len(ends) <= 2
            stepped = not slash or (step.isascii() and step.isdigit() and int(step) > 0)
            if not (plain and stepped and least <= int(ends[0]) <= int(ends[-1]) <= greatest):
                raise ValueError(f"a cron expression whose {what} is '*', or values {least} to {greatest}")
    return value


def _timezone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("a time zone of the IANA database, such as UTC or Europe/Zurich") from None
    return value


MOST_LEVELS = 8


def _path(value: Any) -> Any:
    # An empty path would be the folder of mog.yaml.
    if isinstance(value, str) and not value.strip():
        raise ValueError("a path")
    return value


EncoderT = TypeVar("EncoderT", bound=EncoderSettings)
Place = Annotated[Path, BeforeValidator(_path)]
# Of a layer of a network.
Width = Annotated[int, Field(gt=0, le=65_536)]
Rate = Annotated[float, Field(gt=0, le=10)]
Name = Annotated[str, AfterValidator(_name)]
RetrieverName = Literal["bm25", "dense", "hybrid"]


class CorpusSettings(SettingsModel):
    """Where one corpus comes from: a `.jsonl[.gz]` file, or a folder of documents.

    A document (a file, or a line of a `.jsonl` file) of more than `max_document_mb` megabytes is passed over.
    """

    path: Place
    max_document_mb: float = Field(20, gt=0, le=1e6)

    @property
    def max_document_bytes(self) -> int:
        """The largest size of a document, in bytes."""
        return int(self.max_document_mb * 1_000_000)


class ChunkerTraining(SettingsModel):
    """How the learned chunker is trained, on the training questions that have evidence in documents.

    `regression` learns what every possible chunk costs, `preference` which of two ends is better for each question, or
    for `all` that follow. Documents are taken until they have `spans` possible chunks, and a share `validation` of them
    tells when to stop: after `patience` epochs without fewer tokens to answer.

    The scorer looks at vectors of sentences, or, with an `encoder` (named as that of sentences is), at the text itself:
    the encoder is trained with it, at a rate of its own and in smaller batches.
    """

    objective: Literal["regression", "preference"] = "regression"
    questions: Literal["each", "all"] = "all"
    width: Width = 64
    layers: Annotated[int, Field(ge=1, le=64)] = 2
    learning_rate: Rate = 1e-3
    encoder: str | None = None
    encoder_learning_rate: Rate = 5e-5
    # 16 with an encoder.
    batch_size: Count = 128
    epochs: Count = 20
    patience: Count = 5
    validation: float = Field(0.15, gt=0, lt=1)
    spans: Count = 60_000

    @model_validator(mode="before")
    @classmethod
    def _batched(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("encoder") is not None:
            return {"batch_size": 16, **value}
        return value


class ChunkerSettings(SettingsModel):
    """How texts are cut into level-1 chunks: by a chunker of corpus/chunkers.py, to `finest_chars`.

    `fixed` counts `tokens` (words and punctuation marks) where they are given, instead of characters.
    """

    name: Literal["sentences", "fixed", "recursive", "paragraphs", "semantic", "learned"] = "sentences"
    tokens: Count | None = None
    training: ChunkerTraining = ChunkerTraining()

    @model_validator(mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _counted(self) -> ChunkerSettings:
        if self.tokens is not None and self.name != "fixed":
            raise ValueError(f"tokens with the chunker 'fixed' alone, not with {self.name!r}")
        return self


class QuestionSetSettings(SettingsModel):
    """Questions that are retrieved over `corpora` together.

    `train` and `test` name the splits used for either. A split cannot be in both: what was trained on is never scored.
    `kinds` leaves out questions of any other kind.
    """

    path: Place
    corpora: list[Name] = Field(min_length=1)
    kinds: list[str] | None = None
    train: list[str] = []
    test: list[str] = []

    @model_validator(mode="after")
    def _disjoint(self) -> QuestionSetSettings:
        if both := sorted(set(self.train) & set(self.test)):
            raise ValueError(f"splits used either for train or for test, not for both ({', '.join(both)})")
        return self


class RetrieverEncoderSettings(EncoderSettings):
    """The encoder of a retriever that experiments compare: it is given every chunk whole, as papers do it."""

    levels: Literal["pooled", "direct"] = "direct"


class Bm25Settings(SettingsModel):
    """BM25 in Lucene's form; `statistics` says over what document frequencies and lengths are counted."""

    k1: float = Field(1.5, ge=0, le=1000)
    b: float = Field(0.75, ge=0, le=1)
    # Over all corpora that are searched together: benchmarks/README.md has the figures of both.
    statistics: Literal["corpus", "question_set"] = "question_set"


class GraphSettings(SettingsModel):
    """The sentence graph: nodes of one or two sentences, each joined to its `k` best others by BM25.

    An edge needs a score of at least `threshold` times the node's score against itself. What lies within 0 … `hops`
    hops of a node is a chunk, the nearest nodes first, up to `max_chars` characters. `across` says what nodes may be
    joined: those of a corpus, or those of all corpora of a question set.
    """

    across: Literal["corpus", "question_set"] = "corpus"
    sentences: Literal[1, 2] = 1
    k: Count = 3
    # The paper gives no value. This leaves out the least alike twelfth of the edges of musique, and 2 % of nodes alone.
    threshold: float = Field(0.15, ge=0, le=1)
    hops: Annotated[int, Field(ge=0, le=16)] = 4
    max_chars: Count = 8000


class SoftLabelSettings(SettingsModel):
    """How the best chunk of each level is compared with the label text, and what the two best levels get."""

    method: Literal["embedding", "tfidf", "hitrate"] = "embedding"
    values: tuple[float, float] = (0.8, 0.2)

    @model_validator(mode="after")
    def _ordered(self) -> SoftLabelSettings:
        first, second = self.values
        if not 1 >= first > second >= 0:
            raise ValueError("two values with 1 >= first > second >= 0")
        return self


class RouterSettings(SettingsModel):
    """The multi-layer perceptron from query vector to level weights."""

    hidden: list[Width] = [256]
    learning_rate: Rate = 1e-3
    epochs: Count = 1000
    patience: Count = 20
    batch_size: Count = 256
    validation: float = Field(0.1, gt=0, lt=1)


class TopicSettings(SettingsModel):
    """BERTopic over the chunks of level 2, of level 1 where there is no other.

    It is fitted on `sample` chunks at most, and again when more than `refit_share` of all chunks were not there when it
    was fitted. A topic has at least `min_topic_size` of the sample. A vector is an outlier when it is farther from its
    topic than all but the share `outlier_quantile` of those that made the topic.
    """

    min_topic_size: Annotated[int, Field(ge=2)] = 10
    sample: Count = 20_000
    refit_share: float = Field(0.2, ge=0, le=1)
    outlier_quantile: float = Field(0.05, ge=0, lt=1)


class AnsweringSettings(SettingsModel):
    """Who answers test questions, and how.

    `reader` is `extractive`, which needs no key, or `openai`: the endpoint and model of `llm`. A method is a way of
    answering (`cot`, `one-step`, `briefcontext`, `at-rag`, `adaptive`), with a retrieval and an arrow before it where
    that is not to be the paper's: `mogg+topics → briefcontext`. Of each question set at most `questions` are answered.
    With `judge` the reader also gives marks to answers of open questions, beside the reference answer.
    """

    reader: Literal["extractive", "openai"] = "extractive"
    methods: list[str] = ["cot", "one-step", "briefcontext", "at-rag", "adaptive"]
    questions: Count | None = None
    judge: bool = False


class ExperimentSettings(SettingsModel):
    """What the papers' experiments vary (`mog experiment`).

    `encoders` are further retrievers by name: BM25 is fused with the first of them (RRF-2) and with the first three
    (RRF-4); they encode every level unless `levels` says otherwise. Experiments that answer anew ask `questions` of
    each question set at most. Positions are percentiles of the context.
    """

    k_r: list[Count] = Field([3, 8, 16, 32], min_length=1)
    label_methods: list[Literal["embedding", "tfidf", "hitrate"]] = Field(
        ["embedding", "tfidf", "hitrate"], min_length=1
    )
    label_values: list[tuple[float, float]] = Field([(0.8, 0.2), (0.7, 0.3)], min_length=2)
    encoders: dict[Name, RetrieverEncoderSettings] = {}
    top_k: list[Count] = Field([8, 16], min_length=1)
    positions: list[Annotated[int, Field(ge=0, le=100)]] = Field([0, 25, 50, 75, 100], min_length=1)
    documents: list[Count] = Field([1, 2, 4, 8, 16], min_length=2)
    questions: Count | None = None
    repeats: Count = 3


class AutomationSettings(SettingsModel):
    """When things happen by themselves: how often corpora are looked at, and when everything is measured again.

    `nightly` is a cron expression of five fields in the time of `timezone`; null measures again by hand only. Unless
    `enabled`, nothing happens before somebody switches sensors and schedule on in the Dagster UI.
    """

    enabled: bool = True
    interval_seconds: Count = 30
    nightly: Annotated[str, AfterValidator(_cron)] | None = "0 3 * * *"
    timezone: Annotated[str, AfterValidator(_timezone)] = "UTC"


class Settings(SettingsModel):
    """Everything a user can choose, with paths made absolute."""

    home: Place = Path(".mog")
    corpora: dict[Name, CorpusSettings] = Field(min_length=1)
    question_sets: dict[Name, QuestionSetSettings] = {}
    levels: Annotated[int, Field(ge=1, le=MOST_LEVELS)] = 5
    finest_chars: Annotated[int, Field(ge=50, le=MOST)] = 500
    chunker: ChunkerSettings = ChunkerSettings()
    buckets: Annotated[int, Field(ge=1, le=4096)] = 32
    encoder: EncoderSettings = EncoderSettings()
    bm25: Bm25Settings = Bm25Settings()
    retriever: RetrieverName = "bm25"
    k_r: Count = 3
    k: Count = 2
    graph: GraphSettings = GraphSettings()
    soft_labels: SoftLabelSettings = SoftLabelSettings()
    router: RouterSettings = RouterSettings()
    topics: TopicSettings = TopicSettings()
    answering: AnsweringSettings = AnsweringSettings()
    llm: LlmSettings = LlmSettings()
    experiments: ExperimentSettings = ExperimentSettings()
    engine: EngineSettings = EngineSettings()
    automation: AutomationSettings = AutomationSettings()
    # None: `default_methods` of retrieval/methods.py.
    methods: list[str] | None = None
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0

    @model_validator(mode="after")
    def _known_corpora(self) -> Settings:
        for name, question_set in self.question_sets.items():
            for corpus in question_set.corpora:
                if corpus not in self.corpora:
                    known = ", ".join(self.corpora)
                    raise ValueError(
                        f"question_sets.{name}.corpora: expected names of corpora ({known}), got {corpus!r}"
                    )
        return self

    @model_validator(mode="after")
    def _one_encoder(self) -> Settings:
        if self.encoder.query_model is not None:
            raise ValueError(
                "encoder.query_model: expected none, because router and topics take vectors of questions and chunks "
                f"for those of one model, got {self.encoder.query_model!r}; name the pair under experiments.encoders"
            )
        return self

    @model_validator(mode="after")
    def _chunker_is_trained(self) -> Settings:
        if self.chunker.name == "learned" and not self.trains_routers:
            raise ValueError(
                "chunker.name: expected a chunker that needs no training, because no question set has a train split, "
                "got 'learned'; name one under question_sets.NAME.train, or choose another chunker"
            )
        return self

    @property
    def trains_routers(self) -> bool:
        """Whether there are questions to train routers on."""
        return any(question_set.train for question_set in self.question_sets.values())

    @property
    def tests(self) -> bool:
        """Whether there are questions to measure by."""
        return any(question_set.test for question_set in self.question_sets.values())

    @property
    def level_range(self) -> range:
        """The levels, finest first: 1 … n."""
        return range(1, self.levels + 1)


def file(path: str | Path | None = None) -> Path:
    """Where settings are read from: `path`, else what `MOG_CONFIG` names, else `mog.yaml` in the working directory."""
    return Path(path or os.environ.get(CONFIG_VARIABLE) or DEFAULT_CONFIG).resolve()


def load(path: str | Path | None = None) -> Settings:
    """Read settings from `path`, else from `MOG_CONFIG`, else from `mog.yaml` in the working directory.

    Raises:
        ConfigError: the file is missing, is not YAML, or a key in it is unknown or has a value that cannot be used.
            The message names each key, what is expected, and what was given.
    """
    source = file(path)
    raw = config_file.read(source)
    try:
        # As JSON, strictly: "5" and true are no numbers, while a list becomes a tuple and a text a path.
        settings = Settings.model_validate_json(json.dumps(raw), strict=True)
        return _absolute(settings, source.parent)
    except ValidationError as error:
        lines = "; ".join(_explain(detail) for detail in error.errors())
        raise ConfigError(f"configuration {shown(source)}: {lines}") from error
    except ConfigError as error:
        raise ConfigError(f"configuration {shown(source)}: {error}") from error


def _absolute(settings: Settings, base: Path) -> Settings:
    corpora = {name: resolved(f"corpora.{name}.path", c.path, base) for name, c in settings.corpora.items()}
    sets = {name: resolved(f"question_sets.{name}.path", q.path, base) for name, q in settings.question_sets.items()}
    home = resolved("home", settings.home, base)
    check_home(home, corpora)
    return settings.model_copy(
        update={
            "home": home,
            **_encoders(settings, base),
            "corpora": {name: c.model_copy(update={"path": corpora[name]}) for name, c in settings.corpora.items()},
            "question_sets": {
                name: q.model_copy(update={"path": sets[name]}) for name, q in settings.question_sets.items()
            },
        }
    )


def _encoders(settings: Settings, base: Path) -> dict[str, Any]:
    """The settings that name encoders, folders made absolute."""

    def placed(key: str, encoder: EncoderT) -> EncoderT:
        named = {field: getattr(encoder, field) for field in ("model", "query_model")}
        found = {f: encoder_source(f"{key}.{f}", model, base) for f, model in named.items() if model is not None}
        return encoder.model_copy(update=found)

    chunker, training = settings.chunker, settings.chunker.training
    if training.encoder is not None:
        source = encoder_source("chunker.training.encoder", training.encoder, base)
        chunker = chunker.model_copy(update={"training": training.model_copy(update={"encoder": source})})
    compared = settings.experiments.encoders
    others = {name: placed(f"experiments.encoders.{name}", encoder) for name, encoder in compared.items()}
    return {
        "encoder": placed("encoder", settings.encoder),
        "chunker": chunker,
        "experiments": settings.experiments.model_copy(update={"encoders": others}),
    }


def _explain(detail: Any) -> str:
    location = [part for part in detail["loc"] if part != "[key]"]
    key = shown(".".join(map(str, location)))
    if detail["type"] == "extra_forbidden":
        model = _model_at(location[:-1])
        close = difflib.get_close_matches(str(location[-1]), model, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(model)}"
        return f"{key}: expected a known key, got {location[-1]!r}; {hint}"
    if detail["type"] == "missing":
        return f"{key}: expected a value, got none"
    expected = detail["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    # The words of YAML for those of JSON.
    expected = expected.replace("valid array", "valid list").replace("an object", "keys with values")
    if not key:
        return expected
    if detail["input"] is None:
        return f"{key}: expected {expected}, got nothing; give it a value, or leave the key out"
    return f"{key}: expected {expected}, got {_LIMITED.repr(detail['input'])}"


_LIMITED = reprlib.Repr()
_LIMITED.maxstring = _LIMITED.maxother = 80


def _model_at(location: Sequence[str | int]) -> list[str]:
    """The field names of the settings model that lies at a location such as ["corpora", "niddk"]."""
    kind: Any = Settings
    for part in location:
        # Names of corpora, and numbers of list items, are not fields.
        kind = kind.model_fields[part].annotation if _is_model(kind) else get_args(kind)[-1]
    return list(kind.model_fields)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, SettingsModel)
