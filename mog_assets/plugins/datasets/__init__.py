"""`mog import`: public data sets in their own formats become corpora and question sets."""

from mog_assets import registry

registry.COMMANDS.add_modules(f"{__name__}.commands")
registry.IMPORTERS.add_modules(f"{__name__}.judged", f"{__name__}.squad")
