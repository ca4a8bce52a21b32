"""Look after a project and its machine: `mog plan`, `mog doctor`, `mog prune`."""

from mog_assets import registry

registry.COMMANDS.add_modules(f"{__name__}.commands")
