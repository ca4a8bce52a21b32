"""Models beside the default ones: forms of endpoints, an encoder of many languages, families of encoders."""

from mog_assets import registry

registry.ENCODERS.add_modules(f"{__name__}.encoders")
registry.ENCODER_FORMS.add_modules(f"{__name__}.encoder_forms")
registry.RERANKER_FORMS.add_modules(f"{__name__}.reranker_forms")
registry.FAMILIES.add_modules(f"{__name__}.families")
