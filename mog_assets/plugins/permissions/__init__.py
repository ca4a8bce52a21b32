"""Permissions: rules of a file say who may see which documents."""

from mog_assets import registry

registry.SECTIONS.add_modules(f"{__name__}.settings")
registry.AUTHORIZERS.add_modules(f"{__name__}.settings")
registry.COMMANDS.add_modules(f"{__name__}.commands")
registry.FINDINGS.add_modules(f"{__name__}.findings")
