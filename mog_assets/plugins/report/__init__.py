"""The history of scores, with its alarm, the report (all measurements as one HTML page), and `mog compare`."""

from mog_assets import registry

_RESULTS = ("history", "report")
registry.COMMANDS.add_modules(f"{__name__}.commands")
registry.RUN_TABLES.add_modules(f"{__name__}.shares")
registry.RECIPES.register("report", registry.Stage(f"{__name__}.assets", _RESULTS, results=_RESULTS))
