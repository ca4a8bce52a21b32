"""The reader of answers `trained`: the small network with weights of the asset `reader`."""

from __future__ import annotations

from mog_assets import registry
from mog_assets.answer.readers import AnswerReader, neural_name, open_neural
from mog_assets.answer.roles import Roles
from mog_assets.build.tools import Tools

ASSET = "reader"


def _open(tools: Tools) -> Roles:
    # Here, because a configuration is read without it.
    from mog_assets.answer.reader.model import FILE, opened
    from mog_assets.resources import tensors

    stored = tools.store.read(ASSET, None)
    remedy = f"run `mog run --select {ASSET}`"
    network = opened(tensors.read(stored, FILE, ASSET), str(stored.path(FILE)), remedy)
    return open_neural(tools, network)


registry.ANSWER_READERS.register(
    "trained",
    AnswerReader(_open, lambda tools: neural_name(tools, "trained"), assets=(ASSET,), trains=True),
)
