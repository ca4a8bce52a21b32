"""What another package adds: a chunker, an expert and a way of answering, each registered where it is defined."""

from dataclasses import dataclass, replace

import numpy as np

from mog_assets import registry
from mog_assets.answering.answerers import Way, one_step
from mog_assets.chunking.chunkers import Chunker
from mog_assets.ranking.relations import FurtherExpert


def verses(text, _):
    """A line is a chunk."""
    ends = np.cumsum([len(line) for line in text.splitlines(keepends=True)])
    return np.stack([np.append(0, ends[:-1]), ends], axis=1)


@dataclass(frozen=True)
class Length:
    """Long pieces score more than short ones."""

    name: str = "length"

    def scores(self, found, value, vectors, terms):
        return found.place[:, 2].astype(np.float32)


def shout(questions, means, topics=False):
    """As `one-step`, louder."""
    rows = one_step(questions, means, topics=topics)
    return [replace(row, method="shout", answer=row.answer and row.answer.upper()) for row in rows]


registry.CHUNKERS.register("verses", Chunker(lambda options: verses))
registry.EXPERTS.register("length", FurtherExpert(lambda opened: Length(), "how long a piece is", said="it is long"))
registry.WAYS.register("shout", Way(shout, "one answer, in capitals"))
