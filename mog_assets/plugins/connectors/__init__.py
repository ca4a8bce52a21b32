"""Documents of buckets, Git repositories, web sites and databases."""

from mog_assets import registry

_MODULES = ("git_repositories", "object_stores", "sql_tables", "web_pages")
registry.SOURCES.add_modules(*(f"{__name__}.{name}" for name in _MODULES))
