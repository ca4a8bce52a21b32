"""Tools for agents by the Model Context Protocol: `mog mcp`, and `/mcp` of the HTTP server."""

from mog_assets import registry

registry.COMMANDS.add_modules(f"{__name__}.commands")
registry.ROUTES.add_modules(f"{__name__}.routes")
