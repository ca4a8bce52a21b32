"""Topics of chunks: a model that is fitted rarely, and topics of chunks and questions by it."""

from mog_assets import registry

registry.SECTIONS.add_modules(f"{__name__}.settings")
registry.RECIPES.register("topics", registry.Stage(f"{__name__}.assets", ("topics/",)))
registry.LIMITS.add_modules(f"{__name__}.questions")
registry.FIELDS.add_modules(f"{__name__}.assign")
