"""A question gets the same passages alone as among many."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from incremental import IN_MEMORY, two_corpora

from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EncoderSettings
from mog_assets.search.methods import METHODS, Method
from mog_assets.search.retrieval import Retrieval

QUESTIONS = [
    "How does the heron fish?",
    "What does the otter eat at dusk, and where does it live while the river is high and the bank is under water?",
    "Newts?",
    "Where are newts in winter?",
]


@pytest.fixture(scope="module")
def opened():
    """Both corpora, with an encoder that remembers nothing."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        project = two_corpora(Path(folder), Encoder(EncoderSettings(device="cpu")))
        project.run()
        tools = project.tools
        yield Retrieval.open(tools, tools.store.read, list(project.settings.corpora))


@pytest.mark.parametrize("retriever", ["bm25", "dense", "hybrid"])
@pytest.mark.parametrize(
    ("kind", "level"), [("fixed", 1), ("fixed", 2), pytest.param("fused-paper", 1, marks=pytest.mark.whole)]
)
def test_question_alone_is_ranked_as_among_many(opened, retriever, kind, level):
    method = Method("any", retriever, kind, level, METHODS[kind])
    together = opened.with_queries(QUESTIONS).rank(method, 3)
    assert len(together.question)
    for number, question in enumerate(QUESTIONS):
        alone, among = opened.with_queries([question]).rank(method, 3), together.at(together.question == number)
        for name in ("document", "start", "end", "level", "rank"):
            np.testing.assert_array_equal(getattr(alone, name), getattr(among, name))
        # Products of one vector and of several are added up in another order.
        np.testing.assert_allclose(alone.score, among.score, rtol=1e-6)
