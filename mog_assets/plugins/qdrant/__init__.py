"""Qdrant, in this process or a server: collections of vectors, one a level, that searches of few questions ask."""

from mog_assets import registry

registry.SECTIONS.add_modules(f"{__name__}.settings")
registry.RECIPES.register("qdrant", registry.Stage(f"{__name__}.assets", ("qdrant",)))
registry.DEMANDS.add_modules(f"{__name__}.registered")
registry.VECTOR_STORES.add_modules(f"{__name__}.registered")
