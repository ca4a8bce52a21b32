"""`mog export`: measures and vectors as files of other tools: TREC, Parquet, CSV."""

from mog_assets import registry

registry.COMMANDS.add_modules(f"{__name__}.commands")
