"""The code location of `mog ui` and `dagster dev`: the asset graph of the corpora and question sets in `mog.yaml`."""

import logging

from mog_assets import config
from mog_assets.build.automation import build
from mog_assets.resources import tracing
from mog_assets.resources.printable import EscapedRecord

tracing.start()
# What Dagster writes to the terminal of `mog ui` passes here.
logging.setLogRecordFactory(EscapedRecord)
defs = build(config.load())
