"""The settings that a build may read: those that its recipe declares, and so are in its fingerprint.

Tests check it of all that they build in their own process. A setting that a build reads but does not declare would
leave a stale artefact when it changes.
"""

from functools import partial

from mog_assets.resources.errors import MogError
from mog_assets.resources.settings import SettingsModel
from mog_assets.resources.store import label

CARRIED = frozenset(
    {
        # Where artefacts lie, and which are read.
        *("home", "corpora", "corpora.path", "question_sets", "methods", "levels", "buckets"),
        # How many requests are under way together.
        "llm.concurrency",
        # A name for what `Encoder.identity` says.
        "encoder.model",
    }
)
"""Settings that need not be declared: their change is seen in what an artefact is made from."""


class UndeclaredSetting(MogError):
    """A build reads a setting that its recipe does not declare."""


def checked(build):
    """`build` of an artefact; settings that its recipe does not declare raise `UndeclaredSetting`."""

    def building(work, recipes):
        tools, names = work.tools, set()
        declaring = _with(tools, names.add)
        work.recipe.settings(declaring)
        work.recipe.source(declaring.settings, work.corpus)

        def check(name):
            if name not in names | CARRIED:
                what = label(work.recipe.key, work.corpus)
                raise UndeclaredSetting(
                    f"{what}: expected to be built from settings that its recipe declares, "
                    f"got {name}: add it to `Recipe.settings`, so that the artefact is built again when it changes"
                )

        work.tools = _with(tools, check)
        build(work, recipes)

    return building


def _with(tools, read):
    return _Tools(tools, _Watched(tools.settings, "", read))


class _Tools:
    """Resources with other settings; they are opened, once, with their own."""

    def __init__(self, tools, settings):
        self._tools, self.settings = tools, settings

    def __getattr__(self, name):
        return getattr(self._tools, name)


class _Watched:
    """Settings that tell `read` the name of each value that is read: `k`, `ranking.questions`, `corpora.path`."""

    def __init__(self, model, place, read):
        self._model, self._place, self._read = model, place, read

    def __getattr__(self, name):
        kind = type(self._model)
        if name in kind.model_fields:
            return self._value(name)
        attribute = getattr(kind, name)
        if isinstance(attribute, property):
            return attribute.fget(self)
        if name == "model_dump":
            return self._dumped
        if name == "model_copy":
            return self._copied
        self._whole()
        return getattr(self._model, name)

    def _value(self, name):
        value, place = getattr(self._model, name), f"{self._place}{name}"
        if isinstance(value, SettingsModel):
            return _Watched(value, f"{place}.", self._read)
        self._read(place)
        if isinstance(value, dict):
            watched = partial(_Watched, place=f"{place}.", read=self._read)
            return {key: watched(its) if isinstance(its, SettingsModel) else its for key, its in value.items()}
        return value

    def _dumped(self, **options):
        self._whole(options.get("include"), options.get("exclude") or ())
        return self._model.model_dump(**options)

    def _copied(self, **options):
        return _Watched(self._model.model_copy(**options), self._place, self._read)

    def _whole(self, include=None, exclude=()):
        for name in _names(self._model, self._place):
            field = name.removeprefix(self._place).partition(".")[0]
            if field not in exclude and (include is None or field in include):
                self._read(name)

    @property
    def __class__(self):
        return type(self._model)

    def __eq__(self, other):
        self._whole()
        return self._model == (other._model if type(other) is _Watched else other)

    def __hash__(self):
        self._whole()
        return hash(self._model)

    def __reduce__(self):
        # Another process gets the settings as they are.
        return _same, (self._model,)


def _same(model):
    return model


def _names(model, place):
    for field in type(model).model_fields:
        value = getattr(model, field)
        inner = [value] if isinstance(value, SettingsModel) else []
        if isinstance(value, dict):
            inner = [its for its in value.values() if isinstance(its, SettingsModel)]
        for its in inner:
            yield from _names(its, f"{place}{field}.")
        if not isinstance(value, SettingsModel):
            yield f"{place}{field}"
