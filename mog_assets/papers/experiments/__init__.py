"""The papers' experiments: on-demand assets with figures and a verdict on each claim."""

from mog_assets import registry

registry.SECTIONS.add_modules(f"{__name__}.settings")
registry.COMMANDS.add_modules(f"{__name__}.commands")
registry.RECIPES.register("experiments", registry.Stage(f"{__name__}.assets", ("experiments/",)))
registry.EXPERIMENTS.add_modules(*(f"{__name__}.{name}" for name in ("learning", "answers", "costs")))
