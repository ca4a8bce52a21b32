"""Documents that programs push: kept in a file, which is a source, and searched after the next run."""

from mog_assets import registry

registry.SOURCES.add_modules(f"{__name__}.pushed")
registry.COMMANDS.add_modules(f"{__name__}.commands")
registry.ROUTES.add_modules(f"{__name__}.routes")
registry.MCP_TOOLS.add_modules(f"{__name__}.agents")
registry.SERVER_FLAGS.add_modules(f"{__name__}.flags")
registry.PROJECT_ATTRIBUTES.add_modules(f"{__name__}.methods")
