"""The assets that ways of answering read."""

from __future__ import annotations

from mog_assets.answer.notation import combinations
from mog_assets.build.demand import Demand
from mog_assets.config import Settings
from mog_assets.registry import DEMANDS
from mog_assets.search.methods import AUTO, needs


def _demand(settings: Settings) -> Demand:
    methods = [how.retrieval for how in combinations(settings) if how.retrieval is not None]
    optional = [method for method in methods if method.kind != AUTO and not method.evaluation_only]
    # Without a word of the settings, ways are there for whoever asks, and none is measured.
    named = methods if settings.answering.methods else []
    return Demand(methods=needs(named, settings), optional=needs(optional, settings))


DEMANDS.register("answering", _demand)
