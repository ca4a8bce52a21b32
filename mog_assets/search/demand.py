"""The assets that searches read."""

from __future__ import annotations

from mog_assets.build.demand import Demand, Needs
from mog_assets.config import Settings
from mog_assets.registry import DEMANDS
from mog_assets.search.methods import AUTO, all_methods, by_words, named_methods, needs, parse
from mog_assets.search.rankings import models_of
from mog_assets.search.where import FIELDS


def _demand(settings: Settings) -> Demand:
    every = needs([parse(AUTO, settings)], settings)
    methods = [method for method in all_methods(settings) if method.kind != AUTO and not method.evaluation_only]
    models = tuple(models_of(settings).values()) if settings.trains else ()
    together = tuple(key for key in every.shared if key not in models_of(settings).values())
    fields = tuple(field.asset for field in FIELDS.values())
    return Demand(
        words=needs([by_words(settings)], settings),
        search=every,
        current=Needs(every.per_corpus, together),
        methods=needs(named_methods(settings), settings),
        optional=Needs((), models) | needs(methods, settings) | Needs(fields),
        by_words=by_words(settings).name,
    )


DEMANDS.register("search", _demand)
