"""`mog.yaml` as typed settings."""

from mog_assets.config.loading import (
    CONFIG_VARIABLE,
    DEFAULT_CONFIG,
    check_corpora,
    copies,
    file,
    load,
    parse,
    placed_encoder,
)
from mog_assets.config.section import Section
from mog_assets.config.sections import (
    AnsweringSettings,
    AutomationSettings,
    Bm25Settings,
    ChunkerSettings,
    CorpusSettings,
    DriftSettings,
    QuestionSetSettings,
    RankingSettings,
    RetrieverName,
    check_name,
)
from mog_assets.config.settings import Settings, settings_model

__all__ = [
    "AnsweringSettings",
    "AutomationSettings",
    "Bm25Settings",
    "CONFIG_VARIABLE",
    "ChunkerSettings",
    "CorpusSettings",
    "DEFAULT_CONFIG",
    "DriftSettings",
    "QuestionSetSettings",
    "Section",
    "RankingSettings",
    "RetrieverName",
    "Settings",
    "check_corpora",
    "check_name",
    "copies",
    "file",
    "load",
    "parse",
    "placed_encoder",
    "settings_model",
]
