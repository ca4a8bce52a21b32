"""AT-RAG: retrieval by topic, thoughts, graders and rewritten queries, and Adaptive-RAG, which chooses between ways."""

from mog_assets import registry

registry.WAYS.add_modules(f"{__name__}.answerer")
registry.JUDGES.add_modules(f"{__name__}.judging")
registry.EXPERIMENTS.add_modules(f"{__name__}.experiments")
