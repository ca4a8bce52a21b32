"""The engine `ray`: work on document buckets on the nodes of a Ray cluster."""

from mog_assets import registry

registry.ENGINES.add_modules(f"{__name__}.engine")
