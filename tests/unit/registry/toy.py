"""What another package adds, registered where it is defined: a format, a chunker, an expert, a way of answering."""

from dataclasses import dataclass, replace

import numpy as np

from mog_assets import registry
from mog_assets.answering.answerers import Way, one_step
from mog_assets.chunking.chunkers import Chunker
from mog_assets.corpus.formats import Format
from mog_assets.corpus.marks import Parsed
from mog_assets.ranking.relations import FurtherExpert


def backwards(name, content, limits):
    """A file whose lines are written from right to left; the first one is the title."""
    if not content:
        raise ValueError("expected lines, got an empty file")
    title, _, text = "".join(line[::-1] + "\n" for line in content.decode().splitlines()).partition("\n")
    return Parsed(title, text)


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


registry.FORMATS.register(".rtl", Format(backwards))
registry.CHUNKERS.register("verses", Chunker(lambda options: verses))
registry.EXPERTS.register("length", FurtherExpert(lambda opened: Length(), said="it is long"))
registry.WAYS.register("shout", Way(shout))
