"""BriefContext: map-reduce over partitions of a long context."""

from mog_assets import registry

registry.COMMANDS.add_modules(f"{__name__}.commands")
registry.WAYS.add_modules(f"{__name__}.answerer")
registry.ANSWER_MEASURES.add_modules(f"{__name__}.letters")
registry.EXPERIMENTS.add_modules(
    *(f"{__name__}.experiments.{name}" for name in ("briefcontext", "conflicts", "preflight"))
)
