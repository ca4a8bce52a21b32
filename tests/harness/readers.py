"""Readers and a retrieval for tests of ways of answering: a scripted model, passages, and vectors by words."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from mog_assets.answer.answerers import Means, RetrievedPassages
from mog_assets.answer.prompted import Prompted
from mog_assets.answer.roles import AnswerRequest, RetrievedPassage

OPTIONS = {"A": "insulin", "B": "glucagon", "C": "cortisol", "D": "aldosterone"}
CHOICE = AnswerRequest("c", "Which hormone lowers blood glucose?", OPTIONS, "choice")
YES_NO = {"A": "yes", "B": "no", "C": "maybe"}
PASSAGES = [
    RetrievedPassage(
        "med", "d1", "Hormones", "Insulin lowers blood glucose. It is made by the pancreas.", (("med", "d1", 0, 57),)
    ),
    RetrievedPassage(
        "med", "d2", "Hormones", "Glucagon raises blood glucose. Cortisol does so too.", (("med", "d2", 5, 57),), 2
    ),
    RetrievedPassage(
        "med", "d3", "Kidneys", "Aldosterone makes the kidneys keep sodium. They filter blood.", ((0, 61),)
    ),
]


@dataclass(frozen=True)
class Said:
    text: str
    model: str = "scripted"
    tokens_in: int = 10
    tokens_out: int = 2
    cost: float = 0.5
    seconds: float = 0.25
    finish_reason: str = "stop"


class Scripted:
    """Gives each role its next output; the last one again and again. An error among them is raised.

    What it is asked stands in `asked`, by role.
    """

    def __init__(self, **outputs):
        usual = {
            "answer": '{"answer_choice": "A"}',
            "reduce": '{"answer_choice": "B"}',
            "think": "a thought",
            "extract": "something relevant",
            "usefulness": '{"verdict": "useful"}',
            "support": '{"verdict": "supported"}',
            "rewrite": '{"query": "rewritten"}',
            "classify": '{"verdict": "single"}',
        }
        self.outputs = {role: list(given) for role, given in {**{k: [v] for k, v in usual.items()}, **outputs}.items()}
        self.asked = defaultdict(list)

    def __call__(self, messages, form=None):
        role = messages[0]["content"].partition(" ")[0].strip("[")
        outputs = self.outputs[role]
        output = outputs[min(len(self.asked[role]), len(outputs) - 1)]
        self.asked[role].append(messages[1]["content"])
        if isinstance(output, Exception):
            raise output
        return Said(output)


USELESS, UNSUPPORTED = '{"verdict": "not_useful"}', '{"verdict": "unsupported"}'


class Library:
    """Retrieval that always finds the same, whatever the topic, and remembers what it was asked."""

    def __init__(self, passages=PASSAGES, topic=3):
        self.passages, self.topic, self.asked = passages, topic, []

    def __call__(self, queries, k, limit, read=()):
        self.asked.append((list(queries), k, limit))
        group = {"topic": self.topic, "label": "hormones", "fallback": self.topic == -1} if limit else {}
        return [RetrievedPassages(self.passages[:k], group) for _ in queries]


def means(model, library=None, **more):
    return Means(Prompted(model, "scripted"), library or Library(), **more)


def by_words(texts):
    """Unit vectors over letters of words: close where words are shared."""
    vectors = np.zeros((len(texts), 512), np.float32)
    for row, text in zip(vectors, texts, strict=True):
        for word in text.lower().replace("?", " ").replace(".", " ").split():
            row[int.from_bytes(word.encode(), "big") % 509] += 1
        row[511] = 1e-3
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


# What an extractive reader can quote.
QUOTED = [
    RetrievedPassage(
        "c", "a", "Bustard", "The great bustard is a heavy bird. It was reintroduced to Salisbury Plain in 2004."
    ),
    RetrievedPassage("c", "b", "Otter", "The otter eats fish. It sleeps by day."),
]
REINTRODUCED = AnswerRequest("q", "When was the great bustard reintroduced?")
NONE = AnswerRequest("q", "Who painted the ceiling of the chapel?")
