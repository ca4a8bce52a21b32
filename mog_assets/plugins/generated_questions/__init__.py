"""Questions that a language model makes from documents, each checked against its document and the indexes."""

from mog_assets import registry

registry.SECTIONS.add_modules(f"{__name__}.settings")
registry.QUESTION_SOURCES.add_modules(f"{__name__}.source")
registry.RECIPES.register(
    "generated_questions",
    registry.Stage(f"{__name__}.assets", ("generated_questions",), results=("generated_questions",)),
)
