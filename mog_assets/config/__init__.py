"""`mog.yaml` as typed settings."""

from mog_assets.config.loading import CONFIG_VARIABLE, DEFAULT_CONFIG, check_corpora, copies, file, load, parse
from mog_assets.config.paper_sections import (
    ExperimentSettings,
    GraphSettings,
    RetrieverEncoderSettings,
    RouterSettings,
    SoftLabelSettings,
)
from mog_assets.config.sections import (
    AnsweringSettings,
    AutomationSettings,
    Bm25Settings,
    ChunkerSettings,
    ChunkerTraining,
    CorpusSettings,
    DriftSettings,
    GenerationSettings,
    QuestionSetSettings,
    RankingSettings,
    RetrieverName,
    TopicSettings,
    UseSettings,
    check_name,
)
from mog_assets.config.settings import Settings

__all__ = [
    "AnsweringSettings",
    "AutomationSettings",
    "Bm25Settings",
    "CONFIG_VARIABLE",
    "ChunkerSettings",
    "ChunkerTraining",
    "CorpusSettings",
    "DEFAULT_CONFIG",
    "DriftSettings",
    "ExperimentSettings",
    "GenerationSettings",
    "GraphSettings",
    "QuestionSetSettings",
    "RankingSettings",
    "RetrieverEncoderSettings",
    "RetrieverName",
    "RouterSettings",
    "Settings",
    "SoftLabelSettings",
    "TopicSettings",
    "UseSettings",
    "check_corpora",
    "check_name",
    "copies",
    "file",
    "load",
    "parse",
]
