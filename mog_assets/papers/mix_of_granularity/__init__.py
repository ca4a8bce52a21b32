"""Mix-of-Granularity and its graph variant (Zhong et al. 2024), as in the paper."""

from mog_assets import registry

registry.SECTIONS.add_modules(f"{__name__}.settings")
registry.METHODS.add_modules(f"{__name__}.methods", f"{__name__}.ranking")
registry.METHOD_NAMES.add_modules(f"{__name__}.methods")
registry.GROUPS.add_modules(f"{__name__}.methods")
for _name, _module, _keys in (
    ("graph", "graph.assets", ("sentence_graph", "hop_statistics")),
    ("routing", "assets", ("soft_labels", "router_paper", "hop_soft_labels", "hop_router_paper")),
):
    registry.RECIPES.register(_name, registry.Stage(f"{__name__}.{_module}", _keys))
registry.EXPERIMENTS.add_modules(
    *(f"{__name__}.experiments.{name}" for name in ("granularity", "retrievers", "labels", "cost"))
)
