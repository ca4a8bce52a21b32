"""Mix-of-Granularity and its graph variant (Zhong et al. 2024), as in the paper."""

from mog_assets import registry

registry.SECTIONS.add_modules(f"{__name__}.settings")
registry.METHODS.add_modules(f"{__name__}.methods", f"{__name__}.ranking")
registry.METHOD_NAMES.add_modules(f"{__name__}.methods")
registry.GROUPS.add_modules(f"{__name__}.methods")
registry.RECIPES.add_modules(f"{__name__}.assets", f"{__name__}.chosen")
registry.EXPERIMENTS.add_modules(
    *(f"{__name__}.experiments.{name}" for name in ("granularity", "retrievers", "labels", "cost"))
)
