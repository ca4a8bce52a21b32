"""The code location of `mog ui` and `dagster dev`: the asset graph of the corpora and question sets in `mog.yaml`."""

from mog_assets import config
from mog_assets.automation import build

defs = build(config.load())
