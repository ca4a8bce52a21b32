"""`mog.yaml` as typed settings.

Defaults are those of the paper (Zhong et al. 2024, Mix-of-Granularity) unless the field says otherwise.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from mog_assets import config_file, registry
from mog_assets.config_file import check_home, encoder_source, resolved, shown
from mog_assets.resources.chat import LlmSettings
from mog_assets.resources.encoder import EncoderSettings
from mog_assets.resources.errors import ConfigError
from mog_assets.resources.jobs import EngineSettings
from mog_assets.resources.settings import MOST, Count, NamedSettings, SettingsModel
from mog_assets.resources.vector_store import VectorStoreSettings

CONFIG_VARIABLE = "MOG_CONFIG"
DEFAULT_CONFIG = "mog.yaml"

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


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# Field, smallest and largest value, names starting with the smallest value.
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


def _words(value: str) -> str:
    # The words are the kind of a question, and stand in instructions to a model.
    if not (value.strip() and len(value) <= MOST_WORDS and value.isprintable()):
        raise ValueError(f"words on one line, {MOST_WORDS} characters at most")
    return value.strip()


MOST_LEVELS = 8
MOST_WORDS = 200


def _path(value: Any) -> Any:
    # An empty path would be the folder of mog.yaml.
    if isinstance(value, str) and not value.strip():
        raise ValueError("a path")
    return value


EncoderT = TypeVar("EncoderT", bound=EncoderSettings)
Place = Annotated[Path, BeforeValidator(_path)]
# Units of one layer of a network.
Width = Annotated[int, Field(gt=0, le=65_536)]
Rate = Annotated[float, Field(gt=0, le=10)]
Name = Annotated[str, AfterValidator(check_name)]
RetrieverName = Literal["bm25", "dense", "hybrid"]


def _address(text: str) -> str:
    scheme, sign, place = text.partition("://")
    if not sign or not place:
        raise ValueError("an address such as scheme://place")
    registry.SOURCES.check(scheme)
    return text


class CorpusSettings(SettingsModel):
    """The source of one corpus: a `.jsonl[.gz]`, `.csv` or `.tsv` file, or a folder of documents, by its `path`.

    Or an address of another `source`, `scheme://place`: see `mog_assets.corpus.sources`; `path` is then where its items
    are copied to.

    A document (a file, a line of a `.jsonl` file, or a row of a table) over `max_document_mb` megabytes is skipped.
    So is a PDF, Word, PowerPoint or EPUB file that needs more than `max_seconds` or `max_memory_mb` to be parsed, or
    that unpacks to more than `max_unpacked_mb`. The reader `docling`, whose models need more, has other defaults.
    """

    path: Place
    source: Annotated[str, AfterValidator(_address)] | None = None
    max_document_mb: float = Field(20, gt=0, le=1e6)
    reader: Literal["plain", "docling"] = "plain"
    # 600 if the reader is docling.
    max_seconds: float = Field(60, gt=0, le=1e6)
    # 16384 if the reader is docling.
    max_memory_mb: float = Field(2048, ge=256, le=1e7)
    max_unpacked_mb: float = Field(200, gt=0, le=1e6)

    @model_validator(mode="before")
    @classmethod
    def _roomy(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("reader") == "docling":
            return {"max_seconds": 600, "max_memory_mb": 16_384, **value}
        return value

    @model_validator(mode="before")
    @classmethod
    def _of_one_place(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("source") is not None:
            if value.get("path") is not None:
                raise ValueError("either `path` or `source`")
            # Where its items are copied to is known when all settings are.
            return {**value, "path": "source"}
        return value

    @property
    def max_document_bytes(self) -> int:
        """The maximum size of a document, in bytes."""
        return int(self.max_document_mb * 1_000_000)


class ChunkerTraining(SettingsModel):
    """How the learned chunker is trained, on the training questions that have evidence in documents.

    `regression` learns the cost of every possible chunk, `preference` which of two ends is better for each question, or
    for `all` that follow. Documents are added until they have `spans` possible chunks. A share `validation` of them
    decides when to stop: after `patience` epochs without fewer tokens to answer.

    The scorer reads sentence vectors or, with an `encoder` (named like the sentence encoder), the text itself: the
    encoder is then trained too, with its own learning rate and in smaller batches.
    """

    objective: Literal["regression", "preference"] = "regression"
    questions: Literal["each", "all"] = "all"
    width: Width = 64
    layers: Annotated[int, Field(ge=1, le=64)] = 2
    learning_rate: Rate = 1e-3
    encoder: str | None = None
    encoder_learning_rate: Rate = 5e-5
    # 16 if an encoder is set.
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


class ChunkerSettings(NamedSettings):
    """How texts are split into level-1 chunks: by a registered chunker, with target length `finest_chars`.

    `fixed` counts `tokens` (words and punctuation marks) instead of characters if that is set.
    """

    main: ClassVar[str] = "name"

    name: Annotated[str, AfterValidator(registry.CHUNKERS.check)] = "sentences"
    tokens: Count | None = None
    training: ChunkerTraining = ChunkerTraining()

    @model_validator(mode="after")
    def _counted(self) -> ChunkerSettings:
        if self.tokens is not None and self.name != "fixed":
            raise ValueError(f"tokens only with the chunker 'fixed', not with {self.name!r}")
        return self


class QuestionSetSettings(SettingsModel):
    """Questions that are retrieved over `corpora` together.

    They come from the file `path`; or, by `source`, from `generated_questions` of the corpora, or from the log of use.
    `columns` names the columns of a table that are called otherwise than our fields.

    `train` and `test` name the splits for training and testing. No split may be in both: training questions are never
    scored. If neither is given, the splits are `train` and `test`, or for `use` only `train`; questions without a split
    are divided between `train` and `test` by document, or are all in the one of them that is named. With `kinds`,
    questions of other kinds are left out.
    """

    source: Literal["file", "generated", "use"] = "file"
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
            # What people used is what a ranking showed them: it would measure that ranking as better than it is.
            return {"train": ["train"], **({} if value.get("source") == "use" else {"test": ["test"]}), **value}
        return value

    @model_validator(mode="after")
    def _disjoint(self) -> QuestionSetSettings:
        if both := sorted(set(self.train) & set(self.test)):
            raise ValueError(f"splits used either for train or for test, not for both ({', '.join(both)})")
        return self

    @model_validator(mode="after")
    def _from_somewhere(self) -> QuestionSetSettings:
        if (self.source == "file") != (self.path is not None):
            raise ValueError("either the path of a file, or the source 'generated' or 'use'")
        return self


class RetrieverEncoderSettings(EncoderSettings):
    """The encoder of a retriever that experiments compare: it encodes every chunk as one text, as the papers do."""

    levels: Literal["pooled", "direct"] = "direct"


class Bm25Settings(SettingsModel):
    """BM25 in Lucene's form; `statistics` sets over which texts document frequencies and lengths are counted."""

    k1: float = Field(1.5, ge=0, le=1000)
    b: float = Field(0.75, ge=0, le=1)
    # Over all corpora that are searched together; benchmarks/README.md compares both.
    statistics: Literal["corpus", "question_set"] = "question_set"


class GraphSettings(SettingsModel):
    """The sentence graph: nodes of one or two sentences, each linked to its `k` best matches by BM25.

    An edge needs a score of at least `threshold` times the node's score against itself. The nodes within 0 … `hops`
    hops of a node form a chunk, nearest nodes first, of at most `max_chars` characters. `across` says which nodes may
    be linked: those of one corpus, or those of all corpora of a question set.
    """

    across: Literal["corpus", "question_set"] = "corpus"
    sentences: Literal[1, 2] = 1
    k: Count = 3
    # The paper gives no value. This removes the weakest twelfth of the edges of musique and isolates 2 % of its nodes.
    threshold: float = Field(0.15, ge=0, le=1)
    hops: Annotated[int, Field(ge=0, le=16)] = 4
    max_chars: Count = 8000


class SoftLabelSettings(SettingsModel):
    """How the best chunk of each level is compared with the label text, and the label values of the two best levels."""

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


class RankingSettings(SettingsModel):
    """What rankings know and are trained on: at most `questions` training questions of each question set.

    A share `validation` of the documents decides when the training of `mog` stops. `experts` are what rankings use
    besides BM25, vectors and titles: `mention` (what the best texts name), `pagerank` (walks along it), or experts of
    other packages, which count in trained rankings only.
    """

    experts: list[Annotated[str, AfterValidator(registry.EXPERTS.check)]] = ["mention", "pagerank"]
    questions: Count = 4000
    validation: float = Field(0.1, gt=0, lt=1)


class TopicSettings(SettingsModel):
    """BERTopic over the chunks of level 2, or of level 1 if it is the only one.

    It is fitted on at most `sample` chunks, and fitted again when more than `refit_share` of all chunks are new since
    then. A topic has at least `min_topic_size` chunks of the sample. A vector is an outlier if it is farther from its
    topic than all but the share `outlier_quantile` of the vectors that formed the topic. A topic is called by its
    `terms`, or by a name that the language model of `llm` gives it, with one request a topic (`openai`).
    """

    min_topic_size: Annotated[int, Field(ge=2)] = 10
    sample: Count = 20_000
    refit_share: float = Field(0.2, ge=0, le=1)
    outlier_quantile: float = Field(0.05, ge=0, lt=1)
    names: Literal["terms", "openai"] = "terms"


class AnsweringSettings(SettingsModel):
    """What answers test questions, and how.

    `reader` is `extractive` (rules) or `neural` (a small network that comes with mog), which need no key, `trained`
    (the same network, trained on your own questions by the asset `reader`), or `openai`: the endpoint and model of
    `llm`. A method is an answering method (`cot`, `one-step`, `briefcontext`, `at-rag`, `adaptive`), preceded by a
    retrieval method and an arrow if it is not `auto`: `fixed-2+topics → at-rag`. Every run measures those that
    `methods` names; if it is left out, all are measured when `answers` is asked for. At most `questions` of each
    question set are answered. With `judge`, the reader also grades answers to open questions against the reference
    answer.
    """

    reader: Literal["extractive", "neural", "trained", "openai"] = "neural"
    methods: list[str] | None = None
    questions: Count | None = None
    judge: bool = False


class GenerationSettings(SettingsModel):
    """Questions made from documents.

    They are made by the language model of `llm`. At most `per_document` questions of
    each of `documents` documents of each corpus are made. The styles are given to the model as they are written, in
    turn, and so are the breadths: how much of a document the answer rests on.
    """

    # None: all.
    corpora: Annotated[list[Name], Field(min_length=1)] | None = None
    documents: Count = 200
    per_document: Annotated[int, Field(ge=1, le=100)] = 3
    styles: list[Annotated[str, AfterValidator(_words)]] = Field(
        [
            "short keyword query",
            "plain question",
            "question of a layperson",
            "question that needs several sentences",
        ],
        min_length=1,
    )
    breadths: list[Literal["sentence", "paragraph", "section"]] = Field(
        ["sentence", "paragraph", "section"], min_length=1
    )


class DriftSettings(SettingsModel):
    """How much may change before what was counted or trained on it is renewed.

    Term statistics stay until more than a share `documents` of the documents changed since they were counted; trained
    models until more than a share `training` of the candidates of their training questions did. 0 renews at every
    change. The nightly run renews the statistics.
    """

    documents: float = Field(0.01, ge=0, le=1)
    training: float = Field(0.05, ge=0, le=1)


class ExperimentSettings(SettingsModel):
    """Settings of the papers' experiments (`mog experiment`).

    `encoders` are further retrievers by name: BM25 is fused with the first of them (RRF-2) and with the first three
    (RRF-4); they encode every level unless `levels` is set. Experiments that answer questions use at most `questions`
    of each question set. Positions are percentiles of the context.
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
    """Automation: how often corpora are checked for changes, and when everything is measured again.

    `nightly` is a cron expression of five fields in the time zone `timezone`; null disables the schedule. Unless
    `enabled`, sensors and schedule stay off until you switch them on in the Dagster UI.
    """

    enabled: bool = True
    interval_seconds: Count = 30
    nightly: Annotated[str, AfterValidator(_cron)] | None = "0 3 * * *"
    timezone: Annotated[str, AfterValidator(_timezone)] = "UTC"


class UseSettings(SettingsModel):
    """Whether questions, and the passages that were said to answer them, are kept in the home folder: for `days` days.

    Nothing is kept unless `log` is true.
    """

    log: bool = False
    days: Count = 90


class Settings(SettingsModel):
    """All settings, with absolute paths."""

    home: Place = Path(".mog")
    corpora: dict[Name, CorpusSettings] = Field(min_length=1)
    question_sets: dict[Name, QuestionSetSettings] = {}
    levels: Annotated[int, Field(ge=1, le=MOST_LEVELS)] = 5
    finest_chars: Annotated[int, Field(ge=50, le=MOST)] = 500
    chunker: ChunkerSettings = ChunkerSettings()
    buckets: Annotated[int, Field(ge=1, le=4096)] = 32
    shard_chunks: Annotated[int, Field(ge=1, le=MOST)] = 262_144
    encoder: EncoderSettings = EncoderSettings()
    qdrant: VectorStoreSettings = VectorStoreSettings()
    bm25: Bm25Settings = Bm25Settings()
    retriever: RetrieverName = "bm25"
    k_r: Count = 3
    k: Count = 2
    budget: Count = 4000
    graph: GraphSettings = GraphSettings()
    soft_labels: SoftLabelSettings = SoftLabelSettings()
    router: RouterSettings = RouterSettings()
    ranking: RankingSettings = RankingSettings()
    topics: TopicSettings = TopicSettings()
    drift: DriftSettings = DriftSettings()
    answering: AnsweringSettings = AnsweringSettings()
    # None: no questions are made from documents.
    generation: GenerationSettings | None = None
    llm: LlmSettings = LlmSettings()
    experiments: ExperimentSettings = ExperimentSettings()
    engine: EngineSettings = EngineSettings()
    automation: AutomationSettings = AutomationSettings()
    use: UseSettings = UseSettings()
    # None: the group `default` of retrieval/methods.py.
    methods: list[str] | None = None
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0

    @model_validator(mode="after")
    def _known_corpora(self) -> Settings:
        for name, question_set in self.question_sets.items():
            for corpus in question_set.corpora:
                if corpus not in self.corpora:
                    names = ", ".join(self.corpora)
                    raise ValueError(
                        f"question_sets.{name}.corpora: expected names of corpora ({names}), got {corpus!r}"
                    )
        return self

    @model_validator(mode="after")
    def _generated_for_known_corpora(self) -> Settings:
        for corpus in (self.generation and self.generation.corpora) or ():
            if corpus not in self.corpora:
                names = ", ".join(self.corpora)
                raise ValueError(f"generation.corpora: expected names of corpora ({names}), got {corpus!r}")
        return self

    @model_validator(mode="after")
    def _chunks_need_no_generated_questions(self) -> Settings:
        if self.generation is not None and self.chunker.name == "learned":
            raise ValueError(
                "generation: expected none with chunker.name 'learned', because chunks would be made from questions "
                "that are made with the chunks; choose another chunker, or leave generation out"
            )
        return self

    @model_validator(mode="after")
    def _generated(self) -> Settings:
        for name, question_set in self.question_sets.items():
            if question_set.source == "generated" and self.generation is None:
                raise ValueError(
                    f"question_sets.{name}.source: expected `generation` in this file, which says how questions are "
                    "made, got none: add `generation: {documents: 200}`"
                )
        return self

    @model_validator(mode="after")
    def _one_encoder(self) -> Settings:
        if self.encoder.query_model is not None:
            raise ValueError(
                "encoder.query_model: expected none, because router and topics need vectors of questions and chunks "
                f"to come from one model, got {self.encoder.query_model!r}; name the pair under experiments.encoders"
            )
        return self

    @model_validator(mode="after")
    def _something_trains(self) -> Settings:
        for setting, chosen, what, other in (
            ("chunker.name", self.chunker.name == "learned", "learned", "chunker"),
            ("answering.reader", self.answering.reader == "trained", "trained", "reader"),
        ):
            if chosen and not self.trains_routers:
                raise ValueError(
                    f"{setting}: expected a {other} that needs no training, because no question set has a train split, "
                    f"got {what!r}; name one under question_sets.NAME.train, or choose another {other}"
                )
        return self

    @property
    def trains_routers(self) -> bool:
        """Whether any question set has a train split."""
        return any(question_set.train for question_set in self.question_sets.values())

    @property
    def tests(self) -> bool:
        """Whether any question set has a test split."""
        return any(question_set.test for question_set in self.question_sets.values())

    @property
    def asks_a_model(self) -> bool:
        """Whether anything is asked of the language model of `llm`."""
        return self.generation is not None or self.answering.reader == "openai" or self.topics.names == "openai"

    @property
    def level_range(self) -> range:
        """The levels, finest first: 1 … n."""
        return range(1, self.levels + 1)


def file(path: str | Path | None = None) -> Path:
    """The configuration file: `path`, else the value of `MOG_CONFIG`, else `mog.yaml` in the working directory."""
    return Path(path or os.environ.get(CONFIG_VARIABLE) or DEFAULT_CONFIG).resolve()


def load(path: str | Path | None = None) -> Settings:
    """Read settings from `path`, else from `MOG_CONFIG`, else from `mog.yaml` in the working directory.

    Raises:
        ConfigError: the file is missing, is not YAML, or has an unknown key or an invalid value. The message names each
            key, what was expected and what was found.
    """
    source = file(path)
    return parse(config_file.read(source), source)


def parse(values: Mapping[str, Any], source: Path) -> Settings:
    """Settings from the keys and values of a configuration.

    Args:
        values: Keys and values as JSON values.
        source: The file that they come from: named in messages; relative paths are relative to its folder.

    Raises:
        ConfigError: a key is unknown or a value is invalid; the message is that of `load`.
    """
    try:
        # In strict JSON mode "5" and true are not numbers, while a list becomes a tuple and a text a path.
        settings = Settings.model_validate_json(json.dumps(values), strict=True)
        return _absolute(settings, source.parent)
    except ValidationError as error:
        lines = "; ".join(_explain(detail) for detail in error.errors())
        raise ConfigError(f"configuration {shown(source)}: {lines}") from error
    except ConfigError as error:
        raise ConfigError(f"configuration {shown(source)}: {error}") from error


def _absolute(settings: Settings, base: Path) -> Settings:
    local = {name: c for name, c in settings.corpora.items() if c.source is None}
    corpora = {name: resolved(f"corpora.{name}.path", c.path, base) for name, c in local.items()}
    sets = {
        name: resolved(f"question_sets.{name}.path", q.path, base)
        for name, q in settings.question_sets.items()
        if q.path is not None
    }
    home = resolved("home", settings.home, base)
    check_home(home, corpora)
    corpora |= {name: copies(home, name) for name in settings.corpora if name not in corpora}
    return settings.model_copy(
        update={
            "home": home,
            **_encoders(settings, base),
            "corpora": {name: c.model_copy(update={"path": corpora[name]}) for name, c in settings.corpora.items()},
            "question_sets": {
                name: q.model_copy(update={"path": sets.get(name)}) for name, q in settings.question_sets.items()
            },
        }
    )


def copies(home: Path, corpus: str) -> Path:
    """The folder to which the items of a source are copied."""
    return home / "cache" / "sources" / corpus


def _encoders(settings: Settings, base: Path) -> dict[str, Any]:
    """The encoder settings, with absolute paths."""

    def placed(key: str, encoder: EncoderT) -> EncoderT:
        named = {field: getattr(encoder, field) for field in ("model", "query_model")}
        sources = {f: encoder_source(f"{key}.{f}", model, base) for f, model in named.items() if model is not None}
        return encoder.model_copy(update=sources)

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
    # YAML's terms instead of JSON's.
    expected = expected.replace("valid array", "valid list").replace("an object", "keys with values")
    if not key:
        return expected
    if detail["input"] is None:
        return f"{key}: expected {expected}, got nothing; give it a value, or leave the key out"
    return f"{key}: expected {expected}, got {_LIMITED.repr(detail['input'])}"


_LIMITED = reprlib.Repr()
_LIMITED.maxstring = _LIMITED.maxother = 80


def _model_at(location: Sequence[str | int]) -> list[str]:
    """The field names of the settings model at a location such as ["corpora", "niddk"]."""
    kind: Any = Settings
    for part in location:
        # Names of corpora and indexes of list items are not fields.
        kind = kind.model_fields[part].annotation if _is_model(kind) else get_args(kind)[-1]
        # A section that may be missing.
        kind = next((option for option in get_args(kind) if _is_model(option) and type(None) in get_args(kind)), kind)
    return list(kind.model_fields)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, SettingsModel)


def check_corpora(settings: Settings, names: Sequence[str]) -> None:
    """Reject what is no corpus of the project.

    Raises:
        ConfigError: names the first one.
    """
    unknown = [name for name in names if name not in settings.corpora]
    if unknown:
        raise ConfigError(f"--corpus: expected one of {', '.join(settings.corpora)}, got {shown(unknown[0])!r}")
