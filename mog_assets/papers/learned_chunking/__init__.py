"""Learned chunking: a scorer of cuts that is trained on where answers stand."""

from mog_assets import registry

registry.SECTIONS.add_modules(f"{__name__}.settings")
registry.CHUNKERS.add_modules(f"{__name__}.chunker")
registry.RECIPES.register("learned chunker", registry.Stage(f"{__name__}.assets", ("chunker",)))
registry.EXPERIMENTS.add_modules(f"{__name__}.experiments")
