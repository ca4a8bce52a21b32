"""Readers of answers, by the names of the setting `answering.reader`; what one needs is imported when it is opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mog_assets import registry
from mog_assets.registry import Registry

if TYPE_CHECKING:
    from mog_assets.answer.extractive import Encode
    from mog_assets.answer.reader.model import TrainedReader
    from mog_assets.answer.roles import Roles
    from mog_assets.build.tools import Tools


@dataclass(frozen=True)
class AnswerReader:
    """A reader of answers.

    Attributes:
        open: Gives the roles that it plays.
        name: Tells what decides its answers, beside the encoder and `assets`. The graph asks for it whenever it is
            loaded: it reads no weights and does not import torch.
        assets: Keys of those that it is read from.
        trains: Whether it needs a question set with a train split.
    """

    open: Callable[[Tools], Roles]
    name: Callable[[Tools], str]
    assets: tuple[str, ...] = ()
    trains: bool = False


ANSWER_READERS: Registry[AnswerReader] = registry.ANSWER_READERS


def _encoder(tools: Tools) -> tuple[Encode, str]:
    """Return what encodes, and its name."""
    name = f"{tools.settings.encoder.model} {tools.encoder.fingerprint[:12]}"
    return tools.encoder.encode, name


def _extractive(tools: Tools) -> Roles:
    from mog_assets.answer.extractive import Extractive

    return Extractive(*_encoder(tools))


def _rules(tools: Tools) -> str:
    from mog_assets.answer import extractive

    return f"extractive-{extractive.VERSION}"


def open_neural(tools: Tools, network: TrainedReader) -> Roles:
    """Return the roles of a network that points at spans."""
    from mog_assets.answer.neural import Neural

    return Neural(*_encoder(tools), network=network)


def neural_name(tools: Tools, network: str) -> str:
    """Return the name of a reader with a network, given that of the network."""
    from mog_assets.answer import neural

    return f"neural-{neural.VERSION} {network}, {_rules(tools)}"


def _shipped() -> TrainedReader:
    from mog_assets.answer.reader.model import shipped

    return shipped()


def _prompted(tools: Tools) -> Roles:
    from mog_assets.answer.prompted import Prompted
    from mog_assets.resources.chat import RequestFailed
    from mog_assets.resources.store import digest

    llm = tools.settings.llm
    formed = [] if llm.structured == "off" else [llm.structured]
    version = digest(tools.llm.endpoint, llm.temperature, llm.max_tokens, tools.settings.seed, *formed)[:8]
    return Prompted(tools.llm.complete, f"{llm.model} {version}", failures=(RequestFailed,))


ANSWER_READERS.register("extractive", AnswerReader(_extractive, _rules))
ANSWER_READERS.register(
    "neural",
    AnswerReader(lambda tools: open_neural(tools, _shipped()), lambda tools: neural_name(tools, _shipped().name)),
)
ANSWER_READERS.register("openai", AnswerReader(_prompted, lambda tools: _prompted(tools).reader))
