"""What questions are asked of, and a question as it is searched for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.index.analysis import TERMS, Known, known_share
from mog_assets.index.corpora import Corpora, Encode
from mog_assets.index.mentions.edges import Mentions
from mog_assets.index.postings import saturation
from mog_assets.index.vector_stores import CandidateStore
from mog_assets.registry import EXPERTS
from mog_assets.resources import tensors
from mog_assets.resources.embedded import embedded_folder
from mog_assets.resources.errors import MogError
from mog_assets.resources.lazy import cached_property
from mog_assets.resources.tokens import Count, counter, of_file
from mog_assets.search.methods import Method, parse
from mog_assets.search.passages import GAP

# The file of the asset `method`.
CHOSEN = "method.json"
# Pieces of a section, if its texts of all levels have no more.
_SECTION = 64


def expert_names(settings: Settings) -> list[str]:
    """Return the names of the experts, in the order of their scores."""
    return [*_text_experts(settings), *settings.ranking.experts]


def _text_experts(settings: Settings) -> list[str]:
    """Return the names of those that score texts."""
    levels = settings.level_range
    return [*(f"bm25-{level}" for level in levels), *(f"dense-{level}" for level in levels), "title"]


def finest(settings: Settings) -> list[int]:
    """Return the positions of the experts that score pieces themselves."""
    return [0, settings.levels]


@dataclass(frozen=True)
class Query:
    """A question as it is searched for.

    Attributes:
        text: Without options.
        terms: Its words, repetitions included.
        vector: float32 of shape (size,); None to search by words alone.
        vocabulary: Share of the language of the texts that the encoder knows, see `vocabulary.known_shares`.
        is_literal: Whether it is one option, version or name in code that documents have as it stands.
        quoted: Pieces that have what it quotes, which come first.
        allowed: Pieces that may be found, bool of shape (pieces,); None if all.
    """

    text: str
    terms: Sequence[str]
    vector: np.ndarray | None
    vocabulary: float
    is_literal: bool = False
    quoted: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    allowed: np.ndarray | None = None


@dataclass(frozen=True)
class CoarseTexts:
    """Texts of levels from 2, level by level in the order of their pieces, and what does not depend on a question.

    Attributes:
        first: Of the texts of each section at each level, and their number: int64 of shape (levels, sections + 1).
        widths: Pieces of each, int64.
        norms: What is added to the count of a term in each, float64; see `postings.saturation`.
    """

    first: np.ndarray
    widths: np.ndarray
    norms: np.ndarray


@dataclass(frozen=True, eq=False)
class Index:
    """The opened state that questions are asked of: corpora, and what follows from them and from the encoder.

    Attributes:
        corpora: The corpora of a question set.
        open_encoder: Gives what makes vectors of questions; called only if vectors are needed.
        fingerprint: Gives that of the encoder; called only if vectors are needed.
        open_words: Gives what tells which words the encoder has as one token, see `mog_assets.resources.encoder.Model`.
        tools: The resources, for experts that need others.
        store: Opens what is searched for candidates in place of the files, if anything is.
        until: What `auto` stands for, and why, as long as nothing was chosen.
        models: Models by ranking, as they are opened.
    """

    corpora: Corpora
    open_encoder: Callable[[], Encode]
    fingerprint: Callable[[], str]
    open_words: Callable[[], Known]
    tools: Tools | None = None
    store: Callable[[], CandidateStore | None] = lambda: None
    until: tuple[Method, str] | None = None
    models: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, tools: Tools, corpora: Corpora) -> Index:
        """Open corpora for questions."""
        encoder = tools.encoder
        return cls(
            corpora,
            lambda: encoder.encode_questions,
            lambda: encoder.fingerprint,
            lambda: encoder.model.is_token,
            tools,
        )

    @cached_property
    def is_token(self) -> Known:
        """Tells which words the encoder has as one token."""
        return self.open_words()

    @cached_property
    def encode(self) -> Encode:
        """Questions to vectors.

        Raises:
            MogError: vectors of chunks are of another encoder.
        """
        return self.open_encoder()

    @cached_property
    def settings(self) -> Settings:
        """Of the project."""
        return self.corpora.settings

    @cached_property
    def levels(self) -> int:
        """Return how many there are."""
        return self.settings.levels

    @cached_property
    def finest(self) -> list[int]:
        """Positions of the experts that score pieces themselves."""
        return finest(self.settings)

    @cached_property
    def chosen(self) -> tuple[Method, str]:
        """The method that `auto` stands for, and why, as one sentence."""
        if self.until is not None:
            return self.until
        stored = json.loads(tensors.read(self.corpora.read("method", None), CHOSEN, "method"))
        return parse(stored["method"], self.settings), stored["why"]

    @cached_property
    def count_tokens(self) -> Count:
        """Counts the tokens of texts as what reads passages does.

        Raises:
            ConfigError: they cannot be counted; see `resources.tokens.counter`.
        """
        settings = self.settings
        if settings.llm.tokenizer is None and settings.answering.reader != "openai":
            # Rules have none; the other readers read the tokens of the embedded encoder.
            return of_file(embedded_folder("answering.reader") / "tokenizer.json", "answering.reader")
        return counter(settings.llm.tokenizer, settings.llm.model)

    @property
    def experts(self) -> list[str]:
        """Names of all experts, in the order of their scores."""
        return expert_names(self.settings)

    @cached_property
    def reads(self) -> bool:
        """Return whether an expert reads texts together with the question."""
        return any(EXPERTS[name].reads for name in self.settings.ranking.experts)

    @cached_property
    def text_experts(self) -> list[str]:
        """Names of the experts of texts, in the order of their scores."""
        return _text_experts(self.settings)

    @cached_property
    def sections(self) -> np.ndarray:
        """First piece of every section, and the number of pieces: int64 of shape (sections + 1,).

        Sections are parts of documents whose texts are scored together: of so many pieces that no text of any level is
        of two.
        """
        offsets, width = self.corpora.layout.offsets, max(_SECTION, 1 << (self.levels - 1))
        many = -(-np.diff(offsets) // width)
        document = np.repeat(np.arange(len(many)), many)
        place = np.arange(len(document)) - np.repeat(np.cumsum(many) - many, many)
        return np.append(offsets[document] + place * width, self.corpora.layout.count(1))

    @cached_property
    def norms(self) -> np.ndarray:
        """Return what is added to the count of a term in each piece, float64; see `postings.saturation`."""
        mean, options = self.corpora.statistics.mean_lengths["level_1"], self.settings.bm25
        return saturation(self.corpora.words.lengths, mean, options.k1, options.b)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Characters of every piece, float32."""
        return np.diff(self.corpora.layout.spans, axis=1)[:, 0].astype(np.float32)

    @cached_property
    def corpus_of(self) -> np.ndarray:
        """Number of the corpus of every document among all of the project."""
        every = list(self.settings.corpora)
        return np.array([every.index(name) for name in self.corpora.names], np.int64)[self.corpora.owners]

    @cached_property
    def coarse(self) -> CoarseTexts:
        """Texts of levels from 2."""
        layout, statistics, options = self.corpora.layout, self.corpora.statistics, self.settings.bm25
        lengths, of_titles = np.append(0, np.cumsum(self.corpora.words.lengths)), self.corpora.titles.lengths
        first, widths, norms, total = [], [], [], 0
        for level in self.settings.level_range[1:]:
            begin, end = layout.covered(np.arange(layout.count(level)), level)
            first.append(total + np.searchsorted(begin, self.sections))
            total += len(begin)
            widths.append(end - begin)
            # A piece was counted with its title, a text is counted with one.
            tokens = lengths[end] - lengths[begin] - (end - begin - 1) * of_titles[layout.document_of[begin]]
            norms.append(saturation(tokens, statistics.mean_lengths[f"level_{level}"], options.k1, options.b))
        return CoarseTexts(np.array(first), np.concatenate(widths), np.concatenate(norms))

    @cached_property
    def pooled(self) -> np.ndarray:
        """Return what the weighted sum of the products of the pieces of each of `coarse` is divided by, float32."""
        return np.concatenate([*self.corpora.pooled_lengths.values()])

    @cached_property
    def mentions(self) -> Mentions:
        """Return what the documents of the corpora name."""
        return Mentions.open(self.corpora)

    @cached_property
    def vocabulary(self) -> tuple[float, dict[str, float]]:
        """See `vocabulary.known_share`: of the level-1 pieces of all corpora; and of documents, by language."""
        stored, is_token = self.corpora.statistics, self.is_token
        by_language = {code: known_share(*words, is_token) for code, words in stored.by_language().items()}
        return known_share(*stored.frequencies("level_1").most_frequent(2 * TERMS), is_token), by_language

    def token_sizes(self, joined: bool, document: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Return sizes of spans in tokens, each with what may stand between it and another one of its passage.

        Args:
            joined: Whether passages are of one span each.
            document: Of each span.
            start: Its first character.
            end: One after its last.
        """
        texts, spans = self.corpora.texts(document.tolist()), []
        for of, first, last in zip(document.tolist(), start.tolist(), end.tolist(), strict=True):
            title, text = texts[of]
            while last < len(text) and text[last].isspace():
                last += 1
            spans.append(text[first:last] if joined else f"{GAP}{title}: {text[first:last]}")
        return np.array(self.count_tokens(spans), np.int64)


def same_encoder(tools: Tools, encoders: Mapping[str, str]) -> Encode:
    """Return what makes vectors of questions, which are not stored.

    Args:
        tools: Has the encoder.
        encoders: Fingerprints of those that the vectors of chunks are of, with the name of an artefact of each.

    Raises:
        MogError: the encoder is another one.
    """
    encoder = tools.encoder
    for of, name in encoders.items():
        if of != encoder.fingerprint:
            raise MogError(
                f"{name}: expected vectors of the encoder in the settings ({encoder.fingerprint[:12]}), got those of "
                f"another one ({of[:12]}): open the project again if the settings have changed, else run `mog run`"
            )
    return encoder.questions.encode_uncached
