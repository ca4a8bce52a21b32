"""The log of use: what was asked, and which passage was said to answer it, as questions to train on."""

from mog_assets import registry

registry.SECTIONS.add_modules(f"{__name__}.settings")
registry.QUESTION_SOURCES.add_modules(f"{__name__}.question_source")
registry.COMMANDS.add_modules(f"{__name__}.commands")
registry.ROUTES.add_modules(f"{__name__}.routes")
registry.OBSERVERS.add_modules(f"{__name__}.noting")
registry.PROJECT_ATTRIBUTES.add_modules(f"{__name__}.methods")
