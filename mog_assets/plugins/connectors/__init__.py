"""Documents of Git repositories, web sites and databases."""

from mog_assets import registry

registry.SOURCES.add_modules(*(f"{__name__}.{name}" for name in ("git_repositories", "sql_tables", "web_pages")))
