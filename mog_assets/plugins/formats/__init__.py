"""Further formats (workbooks, Parquet, mail, notebooks, source code, older office files), and readers with models."""

from mog_assets import registry

registry.FORMATS.add_modules(f"{__name__}.kinds")
registry.CONTAINERS.add_modules(f"{__name__}.kinds")
registry.QUESTION_TABLES.add_modules(f"{__name__}.question_tables")
registry.READERS.add_modules(f"{__name__}.readers")
