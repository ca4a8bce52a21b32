"""The history of scores, with its alarm, and the report: all measurements as one self-contained HTML page."""

from mog_assets import registry

_RESULTS = ("history", "report")
registry.RUN_TABLES.add_modules(f"{__name__}.shares")
registry.RECIPES.register("report", registry.Stage(f"{__name__}.assets", _RESULTS, results=_RESULTS))
