"""The history of scores, with its alarm, and the report: all measurements as one self-contained HTML page."""

from mog_assets import registry

registry.RUN_TABLES.add_modules(f"{__name__}.shares")
registry.RECIPES.add_modules(f"{__name__}.assets")
