"""Routes in the shapes of others (Dify, vector stores, chat programs), and retrievers for LangChain and its like."""

from mog_assets import registry

registry.ROUTES.add_modules(f"{__name__}.compatible", f"{__name__}.chat")
registry.ERROR_FIELDS.add_modules(f"{__name__}.paths")
