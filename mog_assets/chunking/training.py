"""How the learned chunker is trained: questions with known answer spans say what chunks should have been.

A question is asked of chunks by the similarity of vectors. Its tokens to answer are those of all chunks, best first, up
to and including the one that holds the answer. Chunks of other documents, and the document's own elsewhere, are the
same distractors whatever chunk the answer is in.

References: "Optimizing Retrieval Augmented Generation with Learned Chunking" (Markowitz and Galiya), "Train the Chunker
End-to-End on Question Answering"; SYSTEMS.md, section 3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from mog_assets.chunking.chunks import chunk_text
from mog_assets.chunking.cuts import WINDOW, candidates, least
from mog_assets.chunking.learned import (
    Scorer,
    Shape,
    Windows,
    bisected,
    costs,
    device,
    forward,
    joined,
    network,
    penalty_for,
    scores,
    set_weights,
    weights_of,
    windows,
)
from mog_assets.chunking.sentences import token_starts, units
from mog_assets.chunking.text_encoder import TextEncoder, joint
from mog_assets.config import ChunkerTraining
from mog_assets.questions.sets import Question
from resources.errors import MogError

# Tokens to answer at which curves and early stopping count a question as lost: its tail would decide every mean.
LOST = 2000
# A question's cost in a chunk, against its mean over chunks, is at most so many times as much, or as little.
_EXTREME = np.exp(3)


@dataclass(frozen=True)
class Article:
    """A training document.

    Attributes:
        name: Of corpus and document.
        text: Its text.
        ends: Offsets of the ends of its n units.
        vectors: Their unit vectors, float of shape (n, size); None with an encoder.
        longest: Characters of the longest chunk.
        questions: Unit vectors of its questions, float of shape (questions, size).
        answers: int64 array of shape (questions, 2): first and last unit of each answer.
        chunks: Unit vectors of its possible chunks in order of `possible`, float of shape (possible chunks, size).
        encoder: Reads its windows, in place of vectors.
    """

    name: str
    text: str
    ends: np.ndarray
    vectors: np.ndarray | None
    longest: int
    questions: np.ndarray
    answers: np.ndarray
    chunks: np.ndarray
    encoder: TextEncoder | None = None

    @cached_property
    def windows(self) -> Windows:
        """What a scorer is given of it. One that reads may not see the ends of all possible chunks."""
        tokenizer = self.encoder and self.encoder.tokenizer
        return windows(self.text, self.ends, self.vectors, self.longest, tokenizer)

    @cached_property
    def could(self) -> np.ndarray:
        """Which starts and ends can be those of a chunk: bool array of shape (n, WINDOW)."""
        return candidates(self.ends, self.longest)[1]

    @cached_property
    def possible(self) -> np.ndarray:
        """int64 array of shape (possible chunks, 2): first unit, and the one behind the last."""
        start, place = np.nonzero(self.could)
        return np.stack([start, start + place + 1], axis=1)

    @cached_property
    def number(self) -> np.ndarray:
        """int64 array of shape (n, WINDOW): number of the possible chunk of each start and end."""
        mask = self.could
        return np.where(mask, np.cumsum(mask).reshape(mask.shape) - 1, -1)

    @cached_property
    def tokens(self) -> np.ndarray:
        """int64 array of shape (n + 1,): tokens before each unit."""
        return np.searchsorted(token_starts(self.text), np.concatenate([[0], self.ends]))

    @cached_property
    def similarities(self) -> np.ndarray:
        """float32 of shape (questions, possible chunks)."""
        return self.questions.astype(np.float32) @ self.chunks.astype(np.float32).T

    def numbers(self, taken: Sequence[int]) -> np.ndarray:
        """Numbers of the chunks that end with these many units."""
        after = np.asarray(taken, np.int64)
        start = np.concatenate([[0], after[:-1]])
        return self.number[start, after - start - 1]

    def size(self, chunks: np.ndarray) -> np.ndarray:
        """Tokens of some possible chunks."""
        return self.tokens[self.possible[chunks, 1]] - self.tokens[self.possible[chunks, 0]]

    def holding(self, chunks: np.ndarray) -> np.ndarray:
        """Which of some possible chunks hold which answer whole: bool of shape (questions, chunks)."""
        first, behind = self.possible[chunks].T
        return (first <= self.answers[:, :1]) & (behind > self.answers[:, 1:])


def packed(article: Article, chars: int) -> list[int]:
    """Whole units packed up to `chars` characters, as numbers of units that chunks end with."""
    taken: list[int] = []
    start = 0
    ends = article.ends
    for unit in range(1, len(ends)):
        if ends[unit] - start > chars or unit - (taken[-1] if taken else 0) >= WINDOW:
            taken.append(unit)
            start = int(ends[unit - 1])
    return [*taken, len(ends)]


@dataclass(frozen=True)
class Distractors:
    """Chunks that questions of one article meet besides its own: sorted by similarity, with tokens summed up.

    Attributes:
        similarity: float32 of shape (questions, chunks), descending.
        tokens: int64 of shape (questions, chunks + 1): tokens of the chunks before each place.
    """

    similarity: np.ndarray
    tokens: np.ndarray

    @classmethod
    def of(cls, questions: np.ndarray, chunks: np.ndarray, tokens: np.ndarray) -> Distractors:
        """Of some questions among some chunks, by their vectors."""
        found = questions.astype(np.float32) @ chunks.astype(np.float32).T
        order = np.argsort(-found, axis=1, kind="stable")
        summed = np.cumsum(np.pad(tokens[order], ((0, 0), (1, 0))), axis=1)
        return cls(np.take_along_axis(found, order, axis=1), summed)

    def before(self, question: int, similarity: np.ndarray) -> np.ndarray:
        """Tokens of the chunks that are at least as similar to a question as each of these."""
        return self.tokens[question, np.searchsorted(-self.similarity[question], -similarity, side="right")]


def _pool(articles: Sequence[Article], cuts: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors and tokens of all chunks of some articles, and which article each is of."""
    numbers = [article.numbers(taken) for article, taken in zip(articles, cuts, strict=True)]
    pairs = list(zip(articles, numbers, strict=True))
    return (
        np.concatenate([a.chunks[n] for a, n in pairs]),
        np.concatenate([a.size(n) for a, n in pairs]),
        np.repeat(np.arange(len(articles)), [len(n) for n in numbers]),
    )


def tokens_to_answer(articles: Sequence[Article], cuts: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Tokens to answer of every question over the chunks of all articles; infinite where no chunk holds its answer.

    Args:
        articles: The articles.
        cuts: How many units end with each chunk, for each article.

    Returns:
        float64 of shape (questions,) for each article.
    """
    vectors, tokens, owner = _pool(articles, cuts)
    found = []
    for place, (article, taken) in enumerate(zip(articles, cuts, strict=True)):
        other = Distractors.of(article.questions, vectors[owner != place], tokens[owner != place])
        found.append(_tokens(article, article.numbers(taken), other, np.arange(len(article.questions))))
    return found


def _tokens(article: Article, chunks: np.ndarray, other: Distractors, asked: np.ndarray) -> np.ndarray:
    """Tokens to answer of some questions of an article that is cut into some chunks."""
    similar = article.similarities[np.ix_(asked, chunks)]
    holds = article.holding(chunks)[asked]
    similarity = np.where(holds, similar, -np.inf).max(axis=1, initial=-np.inf)
    own = (article.size(chunks) * (similar >= similarity[:, None])).sum(axis=1)
    ahead = (other.similarity[asked] >= similarity[:, None]).sum(axis=1)
    return np.where(holds.any(axis=1), own + other.tokens[asked, ahead].astype(np.float64), np.inf)


def chunk_costs(articles: Sequence[Article], finest_chars: int) -> list[np.ndarray]:
    """What the possible chunks cost the questions whose answers they hold: float64 of shape (n, WINDOW) per article.

    A question's tokens to answer, were its answer in a chunk and all else packed, are divided by their geometric mean
    over the chunks that could hold the answer: how hard it is by itself is no matter of where the text is cut. All
    questions of an article count together, scaled to one question a unit, so that articles that were asked more count
    as others.
    """
    cuts = [packed(article, finest_chars) for article in articles]
    vectors, tokens, owner = _pool(articles, cuts)
    found = []
    for place, article in enumerate(articles):
        other = Distractors.of(article.questions, vectors[owner != place], tokens[owner != place])
        own = article.numbers(cuts[place])
        holds, every = article.holding(own), article.holding(np.arange(len(article.possible)))
        size = article.size(np.arange(len(article.possible)))
        total = np.zeros(len(article.possible))
        for question in range(len(article.questions)):
            could = np.flatnonzero(every[question])
            if not len(could):
                continue
            similar = article.similarities[question]
            # The packed chunk that has the answer now gives way to the one that would have it.
            rivals = own[~holds[question]]
            order = np.argsort(-similar[rivals], kind="stable")
            summed = np.concatenate([[0], np.cumsum(article.size(rivals)[order])])
            ahead = np.searchsorted(-similar[rivals][order], -similar[could], side="right")
            read = other.before(question, similar[could]) + summed[ahead] + size[could]
            # White space has no tokens.
            cost = np.log(np.maximum(read, 1))
            total[could] += np.clip(np.exp(cost - cost.mean()), 1 / _EXTREME, _EXTREME)
        target = np.zeros(article.could.shape)
        target[article.could] = total * len(article.ends) / max(len(article.questions), 1)
        found.append(target)
    return found


@dataclass(frozen=True)
class Pair:
    """Two ends of one chunk, the first of which gave fewer tokens to answer."""

    article: int
    start: int
    better: int
    worse: int


def preferences(
    articles: Sequence[Article],
    scored: Sequence[np.ndarray],
    others: Sequence[Distractors],
    bonus: float,
    every: bool,
    rng: np.random.Generator,
) -> list[Pair]:
    """Preferences between the end that is taken and one drawn instead, for each question once.

    An article is cut greedily up to the chunk that holds the question's answer. There another end is drawn by the
    softmax of the scores; from either on it is cut greedily to its end. Ties are passed over.

    Args:
        articles: The articles.
        scored: Their scores, from `learned.scores`.
        others: What the questions of each meet besides its own chunks.
        bonus: Added to a score for each full length of the longest chunk, so that chunks keep their mean length.
        every: Compare the tokens of all questions from there on, not those of the one.
        rng: Draws the ends.
    """
    found = []
    for place, (article, score, other) in enumerate(zip(articles, scored, others, strict=True)):
        values = _biased(article, score, bonus)
        following = np.arange(len(values)) + values.argmax(axis=1) + 1
        for question in range(len(article.questions)):
            path = [0]
            while following[path[-1]] <= article.answers[question, 1]:
                path.append(int(following[path[-1]]))
            start, taken = path[-1], int(following[path[-1]]) - path[-1] - 1
            if start > article.answers[question, 0]:
                continue
            chances = np.where(np.isfinite(values[start]), np.exp(values[start] - values[start].max()), 0)
            chances[taken] = 0
            if not chances.sum() > 0:
                continue
            drawn = int(rng.choice(WINDOW, p=chances / chances.sum()))
            asked = np.flatnonzero(article.answers[:, 0] >= start) if every else np.array([question])
            # Where a cut leaves an answer in two, no number of tokens is enough: more than any article has.
            either = [
                np.minimum(_tokens(article, article.numbers(cut), other, asked), 1e6).sum()
                for cut in (_onward(path[1:], start + end + 1, following) for end in (taken, drawn))
            ]
            if either[0] != either[1]:
                better, worse = (taken, drawn) if either[0] < either[1] else (drawn, taken)
                found.append(Pair(place, start, better, worse))
    return found


def _biased(article: Article, score: np.ndarray, bonus: float) -> np.ndarray:
    starts = np.concatenate([[0], article.ends[:-1]])
    last = np.minimum(np.arange(len(score))[:, None] + np.arange(WINDOW), len(score) - 1)
    share = (article.ends[last] - starts[:, None]) / article.longest
    return np.where(article.windows.possible, score + bonus * share, -np.inf)


def _onward(path: Sequence[int], end: int, following: np.ndarray) -> list[int]:
    taken = [*path, end]
    while taken[-1] < len(following):
        taken.append(int(following[taken[-1]]))
    return taken


def _bonus(articles: Sequence[Article], scored: Sequence[np.ndarray], chars: int) -> float:
    """The bonus with which greedy chunks have a mean length."""

    def chunks(bonus: float) -> int:
        count = 0
        for article, score in zip(articles, scored, strict=True):
            values = _biased(article, score, bonus)
            following = np.arange(len(values)) + values.argmax(axis=1) + 1
            count += len(_onward([], int(following[0]), following))
        return count

    return bisected(chunks, sum(int(a.ends[-1]) for a in articles) / chars, 200.0, 20)


@dataclass(frozen=True)
class Trained:
    """A scorer, and how it was trained.

    Attributes:
        scorer: Of the epoch with the fewest tokens to answer on held-out articles.
        curve: Per epoch: `epoch` (from 1), `train_loss`, `train_tokens`, `validation_tokens` (tokens to answer, at most
            `LOST`, with chunks of the mean length).
        files: `FILES` of the encoder that was trained with it, by name; none without one.
    """

    scorer: Scorer
    curve: list[dict[str, float]]
    files: Mapping[str, str]


State = dict[str, Any]
"""Where training stands after an epoch: `arrays`, by name, and `facts`, as JSON values."""


def train(
    articles: Sequence[Article],
    held_out: np.ndarray,
    finest_chars: int,
    settings: ChunkerTraining,
    seed: int,
    advance: Callable[[int], None] | None = None,
    resume: State | None = None,
    save: Callable[[State], None] | None = None,
) -> Trained:
    """Train a scorer, on a CUDA device where there is one.

    The same arguments give the same weights, also where training was interrupted; on CUDA as nearly as it adds up.

    Args:
        articles: Training documents. Where the settings name an encoder, they have it, and it is trained as well.
        held_out: Which of them tell when to stop, bool array of shape (articles,).
        finest_chars: Mean length of chunks, in characters.
        settings: Of the training.
        seed: Of weights, order, dropout and drawn ends.
        advance: Called with 1 when an epoch is over.
        resume: The last state that `save` was given.
        save: Called after each epoch.

    Raises:
        MogError: the loss is not finite, or a batch does not fit into memory.
    """
    import torch

    encoder, vectors = articles[0].encoder, articles[0].vectors
    if (settings.encoder is None) != (encoder is None):
        raise ValueError(f"articles must be read by the encoder of the settings, {settings.encoder}, got {encoder}")
    where = device()
    fit = [a for a, out in zip(articles, held_out, strict=True) if not out]
    rest = [a for a, out in zip(articles, held_out, strict=True) if out]
    with torch.random.fork_rng(devices=[] if where == "cpu" else None):
        torch.manual_seed(seed)
        if encoder is None:
            assert vectors is not None
            shape = Shape(vectors.shape[1], settings.width, settings.layers)
            model = network(shape)
            groups = [{"params": model.parameters()}]
        else:
            shape = Shape(encoder.size, settings.width, settings.layers)
            model = joint(network(shape), encoder)
            groups = [
                {"params": model.head.parameters()},
                {"params": model.encoder.parameters(), "lr": settings.encoder_learning_rate},
            ]
        model.to(where)
        optimiser = torch.optim.AdamW(groups, lr=settings.learning_rate, weight_decay=0.05)
        curve: list[dict[str, float]] = []
        best: dict[str, np.ndarray] = {}
        if resume:
            curve, best = _restored(model, optimiser, resume)
        data = _Data.of(fit, finest_chars, settings)
        while not _over(curve, settings):
            epoch = len(curve) + 1
            # What an epoch draws follows from its number, so that one that goes on draws the same.
            torch.manual_seed(seed * 100_003 + epoch)
            try:
                loss = data.epoch(model, optimiser, np.random.default_rng([seed, epoch]))
            except torch.OutOfMemoryError as error:
                raise MogError(
                    f"chunker.training.batch_size: expected windows that fit into the memory of the device ({where}) "
                    f"together, got {settings.batch_size}: lower it ({' '.join(str(error).split())[:200]})"
                ) from error
            if not np.isfinite(loss):
                raise MogError(
                    f"chunker: train_loss must be finite, got {loss} in epoch {epoch}; lower "
                    f"chunker.training.learning_rate ({settings.learning_rate})"
                    + (f" or encoder_learning_rate ({settings.encoder_learning_rate})" if encoder else "")
                )
            told = {"epoch": epoch, "train_loss": loss}
            for name, part in (("train", fit), ("validation", rest)):
                found = np.concatenate(tokens_to_answer(part, _cuts(model, part, finest_chars, settings)[0]))
                told[f"{name}_tokens"] = float(np.minimum(found, LOST).mean())
            curve.append(told)
            if best_epoch(curve) == epoch:
                best = {name: array.copy() for name, array in weights_of(model).items()}
            if save:
                save(_state(model, optimiser, curve, best))
            if advance:
                advance(1)
        set_weights(model, best)
        penalty = _cuts(model, articles, finest_chars, settings)[1]
    facts = {
        "encoder": settings.encoder,
        "device": where,
        "shape": vars(shape),
        "finest_chars": finest_chars,
        "objective": settings.objective,
        "penalty": penalty,
        "seed": seed,
    }
    return Trained(Scorer(best, facts), curve, encoder.files() if encoder else {})


def best_epoch(curve: Sequence[Mapping[str, float]]) -> int:
    """The epoch with the fewest tokens to answer on held-out articles, the first of equals; 0 before the first."""
    return int(min(curve, key=lambda told: told["validation_tokens"])["epoch"]) if curve else 0


def _over(curve: Sequence[Mapping[str, float]], settings: ChunkerTraining) -> bool:
    return len(curve) >= settings.epochs or len(curve) - best_epoch(curve) >= settings.patience


def _cuts(
    model: Any, articles: Sequence[Article], finest_chars: int, settings: ChunkerTraining
) -> tuple[list[list[int]], float]:
    """How articles are cut now into chunks of a mean length, and the penalty that does it."""
    held = [costs(scores(model, a.windows, a.vectors), a.windows.possible, settings.objective) for a in articles]
    penalty = penalty_for(finest_chars, [int(a.ends[-1]) for a in articles], held)
    return [least(cost, penalty) for cost in held], penalty


@dataclass(frozen=True)
class _Data:
    """Training windows of all articles, and what their losses are made of."""

    articles: Sequence[Article]
    finest_chars: int
    settings: ChunkerTraining
    windows: Windows
    vectors: np.ndarray | None
    first: np.ndarray
    targets: Any
    others: Sequence[Distractors]

    @classmethod
    def of(cls, articles: Sequence[Article], finest_chars: int, settings: ChunkerTraining) -> _Data:
        import torch

        first = np.cumsum([0, *(len(a.ends) for a in articles)])
        given = [a.vectors for a in articles if a.vectors is not None]
        vectors = np.concatenate(given).astype(np.float32) if given else None
        targets, others = None, []
        if settings.objective == "regression":
            targets = torch.from_numpy(np.concatenate(chunk_costs(articles, finest_chars)).astype(np.float32))
        else:
            pooled, tokens, owner = _pool(articles, [packed(a, finest_chars) for a in articles])
            others = [
                Distractors.of(a.questions, pooled[owner != i], tokens[owner != i]) for i, a in enumerate(articles)
            ]
        found = joined([a.windows for a in articles])
        return cls(articles, finest_chars, settings, found, vectors, first, targets, others)

    def epoch(self, model: Any, optimiser: Any, rng: np.random.Generator) -> float:
        """Learn from all there is once; the mean loss."""
        import torch

        pairs = self._pairs(model, rng) if self.targets is None else None
        model.train()
        order = torch.from_numpy(rng.permutation(int(self.first[-1]) if pairs is None else len(pairs)))
        total = 0.0
        for rows in order.split(self.settings.batch_size):
            loss = self._regression(model, rows) if pairs is None else self._preference(model, pairs[rows])
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            total += float(loss.detach()) * len(rows)
        return total / max(len(order), 1)

    def _regression(self, model: Any, starts: Any) -> Any:
        """Poisson deviance, but for what no score changes: costs are sums of as many parts as there are questions."""
        import torch

        out = forward(model, self.windows, self.vectors, starts.numpy())
        target = self.targets[starts, : out.shape[1]].to(out.device)
        possible = torch.from_numpy(self.windows.possible[starts.numpy(), : out.shape[1]]).to(out.device)
        return (out.clamp(max=20).exp() - target * out)[possible].mean()

    def _preference(self, model: Any, pairs: Any) -> Any:
        """Cross-entropy over the two scores."""
        import torch

        out = forward(model, self.windows, self.vectors, pairs[:, 0].numpy())
        better, worse = (out.gather(1, pairs[:, column : column + 1].to(out.device))[:, 0] for column in (1, 2))
        return torch.nn.functional.softplus(worse - better).mean()

    def _pairs(self, model: Any, rng: np.random.Generator) -> Any:
        import torch

        held = [scores(model, a.windows, a.vectors) for a in self.articles]
        bonus = _bonus(self.articles, held, self.finest_chars)
        every = self.settings.questions == "all"
        found = preferences(self.articles, held, self.others, bonus, every, rng)
        rows = [(int(self.first[p.article]) + p.start, p.better, p.worse) for p in found]
        return torch.tensor(rows, dtype=torch.int64).reshape(-1, 3)


def _state(model: Any, optimiser: Any, curve: list[dict[str, float]], best: Mapping[str, np.ndarray]) -> State:
    arrays = {f"now.{name}": array for name, array in weights_of(model).items()}
    arrays |= {f"best.{name}": array for name, array in best.items()}
    for number, held in optimiser.state_dict()["state"].items():
        arrays |= {f"optimiser.{number}.{name}": value.cpu().numpy() for name, value in held.items()}
    return {"arrays": arrays, "facts": {"curve": curve}}


def _restored(model: Any, optimiser: Any, state: State) -> tuple[list[dict[str, float]], dict[str, np.ndarray]]:
    import torch

    parts: dict[str, dict[str, np.ndarray]] = {"now": {}, "best": {}, "optimiser": {}}
    for name, array in state["arrays"].items():
        part, rest = name.split(".", 1)
        parts[part][rest] = array
    set_weights(model, parts["now"])
    held = optimiser.state_dict()
    for name, array in parts["optimiser"].items():
        number, key = name.split(".")
        held["state"].setdefault(int(number), {})[key] = torch.from_numpy(array.copy())
    optimiser.load_state_dict(held)
    return list(state["facts"]["curve"]), parts["best"]


@dataclass(frozen=True)
class Source:
    """A document that chunkers may be trained on: its name, title and text, and texts and answers of its questions.

    Attributes:
        questions: Texts of the n questions.
        answers: int64 array of shape (n, 2): start and end of each answer in the text.
    """

    name: str
    title: str
    text: str
    questions: Sequence[str]
    answers: np.ndarray


def articles(
    sources: Sequence[Source],
    longest: int,
    encode: Callable[[Sequence[str]], np.ndarray],
    encoder: TextEncoder | None = None,
) -> list[Article]:
    """Encode what training needs of documents: units, questions, and every possible chunk.

    Args:
        sources: The documents, each with at least one question whose answer a chunk can hold.
        longest: Characters of the longest chunk.
        encode: Texts to unit vectors.
        encoder: Reads the windows of the chunker, in place of the vectors of units.
    """
    ends = [units(source.text, longest) for source in sources]
    starts = [np.concatenate([[0], behind]) for behind in ends]
    possible = []
    for behind in ends:
        first, place = np.nonzero(candidates(behind, longest)[1])
        possible.append((first, first + place + 1))
    unit_texts = [
        source.text[start:end]
        for source, begin in zip(sources, starts, strict=True)
        for start, end in pairwise(begin.tolist())
    ]
    chunk_texts = [
        chunk_text(source.title, source.text[begin[first] : begin[behind]])
        for source, begin, chunks in zip(sources, starts, possible, strict=True)
        for first, behind in zip(*chunks, strict=True)
    ]
    question_texts = [text for source in sources for text in source.questions]

    def vectors(texts: list[str], counts: list[int]) -> list[np.ndarray]:
        return np.split(encode(texts), np.cumsum(counts)[:-1])

    of_units: Sequence[np.ndarray | None] = [None] * len(sources)
    if encoder is None:
        of_units = vectors(unit_texts, [len(behind) for behind in ends])
    of_chunks = vectors(chunk_texts, [len(first) for first, _ in possible])
    of_questions = vectors(question_texts, [len(source.questions) for source in sources])
    return [
        Article(
            source.name,
            source.text,
            behind,
            of_units[i],
            longest,
            of_questions[i],
            np.searchsorted(behind, source.answers - [0, 1], side="right"),
            of_chunks[i],
            encoder,
        )
        for i, (source, behind) in enumerate(zip(sources, ends, strict=True))
    ]


def sources(
    texts: Mapping[tuple[str, str], tuple[str, str]], questions: Iterable[Question], longest: int
) -> list[Source]:
    """The documents that have questions with an answer that a chunk can hold, by name.

    Args:
        texts: Title and text of documents, by corpus and id.
        questions: With their evidence; each of its spans is an answer. Passed over are those that no chunk can hold,
            and questions with evidence in several documents: training and held-out articles would share them.
        longest: Characters of the longest chunk.
    """
    held: dict[tuple[str, str], list[tuple[str, int, int]]] = {}
    for question in questions:
        documents = {(span.corpus, span.doc) for span in question.evidence}
        if len(documents) == 1 and documents <= texts.keys():
            spans = sorted({(span.start, span.end) for span in question.evidence})
            held.setdefault(documents.pop(), []).extend((question.question, *span) for span in spans)
    found = []
    for key, asked in sorted(held.items()):
        title, text = texts[key]
        answers = np.array([span for _, *span in asked], np.int64)
        ends = units(text, longest)
        first, last = np.searchsorted(ends, answers - [0, 1], side="right").T
        fits = (last >= first) & (last - first < WINDOW) & (last < len(ends))
        possible = candidates(ends, longest)[1]
        fits[fits] = possible[first[fits], (last - first)[fits]]
        if fits.any():
            kept = [asked[i][0] for i in np.flatnonzero(fits)]
            found.append(Source("/".join(key), title, text, kept, answers[fits]))
    return found


def within(found: Sequence[Source], longest: int, spans: int) -> list[Source]:
    """As many documents as have so many possible chunks, at least two, in an order that does not follow their names.

    One that would make them too many is passed over, whatever comes after it.
    """
    kept: list[Source] = []
    total = 0
    for source in sorted(found, key=lambda one: hashlib.sha256(one.name.encode()).digest()):
        own = int(candidates(units(source.text, longest), longest)[1].sum())
        if total + own <= spans or len(kept) < 2:
            total += own
            kept.append(source)
    return sorted(kept, key=lambda one: one.name)
