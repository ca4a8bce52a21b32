"""The section `use` of `mog.yaml`."""

from __future__ import annotations

from mog_assets import registry
from mog_assets.config import Section
from mog_assets.resources.settings import Count, SettingsModel


class UseSettings(SettingsModel):
    """Log of questions, and of the passages that were said to answer them, in the home folder: for `days` days.

    Nothing is kept unless `log` is true.
    """

    log: bool = False
    days: Count = 90


USE = Section("use", UseSettings, UseSettings(), scored=False)
registry.SECTIONS.register("use", USE)
