"""Routes in the shapes of others (Dify, vector stores, chat programs); retrievers for LangChain and others."""

from mog_assets import registry

registry.ROUTES.add_modules(f"{__name__}.compatible", f"{__name__}.chat")
registry.FOLLOW_UPS.add_modules(f"{__name__}.conversation")
registry.ERROR_FIELDS.add_modules(f"{__name__}.paths")
