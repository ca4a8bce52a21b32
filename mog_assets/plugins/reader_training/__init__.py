"""Training the small reader on the questions of a project: `answering.reader: trained`, and its asset `reader`."""

from mog_assets import registry

registry.ANSWER_READERS.add_modules(f"{__name__}.reader")
registry.RECIPES.register("reader", registry.Stage(f"{__name__}.assets", ("reader",)))
