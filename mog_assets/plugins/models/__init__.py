"""Models beside the default one: rerankers, served models, an encoder of many languages, families of encoders."""

from mog_assets import registry

registry.ENCODERS.add_modules(f"{__name__}.encoders")
registry.ENCODER_KEYS.add_modules(f"{__name__}.encoders")
registry.ENCODER_FORMS.add_modules(f"{__name__}.embeddings", f"{__name__}.encoder_forms")
registry.RERANKER_FORMS.add_modules(f"{__name__}.served_rerankers", f"{__name__}.reranker_forms")
registry.SECTIONS.add_modules(f"{__name__}.reranker_settings")
registry.EXPERTS.add_modules(f"{__name__}.reranking")
registry.FINDINGS.add_modules(f"{__name__}.findings")
registry.FAMILIES.add_modules(f"{__name__}.families")
