"""`mog.yaml` as typed settings."""
# ruff: noqa: F401

from mog_assets.config.corpora import CorpusSettings
from mog_assets.config.loading import (
    CONFIG_VARIABLE,
    DEFAULT_CONFIG,
    copies,
    file,
    load,
    parse,
)
from mog_assets.config.sections import (
    AnsweringSettings,
    AutomationSettings,
    Bm25Settings,
    ChunkerSettings,
    DriftSettings,
    QuestionSetSettings,
    RankingSettings,
    RetrieverName,
    check_name,
)
from mog_assets.config.settings import Section, Settings, check_corpora, settings_model
