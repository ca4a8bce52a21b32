"""A built project, opened for questions: passages, answers and documents, while runs go on making new artefacts."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np

from mog_assets import config as configuration
from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.registry import FOLLOW_UPS, PROJECT_ATTRIBUTES
from mog_assets.resources import tracing
from mog_assets.resources.errors import ConfigError, MissingArtefact, MogError, NotAllowed, NotFound
from mog_assets.search.exact import phrases, quoted
from mog_assets.search.methods import (
    AUTO,
    Method,
    all_methods,
    by_words,
    check_trained,
    needs,
    parse,
    rankings,
    trained_methods,
)
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.where import Where
from mog_assets.serve import reading
from mog_assets.serve.generations import Generation, Generations
from mog_assets.serve.hooks import ALL, Principal, opened_authorizer, opened_observers
from mog_assets.serve.reading import EVERYTHING, Sight
from mog_assets.serve.results import Answer, CorpusInfo, Document, Passage, Retrieved
from mog_assets.text.cuts import sentence_ends

_log = logging.getLogger(__name__)
# Characters of a question; a longer one is a document.
LONGEST_QUESTION = 10_000

OnEvent = Callable[[str, dict[str, Any]], object]


def open(
    config: Settings | str | Path | None = None,
    corpora: Sequence[str] | None = None,
    refresh: float | None = 2.0,
    keep: bool = True,
) -> Project:
    """Open a built project.

    Args:
        config: Path of the configuration file; None for that of `MOG_CONFIG`, else `mog.yaml` in the working directory.
        corpora: Corpora that are searched together, in this order; None for all.
        refresh: Seconds between looks for new artefacts, which are taken over between two questions; None never looks.
        keep: Leave indexes open, for many questions. False reads what a question needs, and takes new artefacts as they
            come, once all of them that belong together have been made.

    Raises:
        ConfigError: the configuration is wrong, or has no such corpus.
        MissingArtefact: something has not been materialised.
    """
    settings = config if isinstance(config, Settings) else configuration.load(config)
    names = list(settings.corpora) if corpora is None else list(corpora)
    _check_corpora(names, list(settings.corpora), ConfigError)
    return Project(settings, names, refresh if keep else None, keep)


class Project:
    """A built project; made by `mog_assets.open`. All methods may be called from several threads at once.

    A question is answered from artefacts that belong together. When a run has replaced those of a corpus, later
    questions see all of the new ones. Settings are read once: after a change of `mog.yaml`, open the project again.

    Args:
        settings: Of the project.
        names: The corpora that are searched together.
        refresh: See `open`.
        keep: See `open`.

    Attributes:
        opened: The corpora that are searched together, whoever asks.
        authorizer: Says who may see what; None if everybody sees everything.
        principal: Who asks; None if nobody was named.
        observers: What is told of the questions that were answered, by name.
    """

    def __init__(self, settings: Settings, names: list[str], refresh: float | None, keep: bool) -> None:
        self.settings = settings
        self.opened = names
        self.authorizer = opened_authorizer(settings)
        self.principal: Principal | None = None
        self._whole = True
        # What people ask is not stored with vectors and replies.
        self._tools = Tools(settings, keep=False)
        self._generations = Generations(self._tools, names, refresh, keep)
        self.observers = opened_observers(settings, keep)

    def as_principal(self, principal: str | Principal, groups: Sequence[str] = ()) -> Project:
        """The project as somebody sees it: documents that they may not see are as if they were not there.

        It shares everything with this project, which is the one to close.

        Args:
            principal: The name of who asks; `*` sees all documents.
            groups: Groups that they are in, beside those that are known.

        Raises:
            ConfigError: nobody may be called so, or the settings do not say who may see what.
            NotAllowed: it cannot be told who may.
        """
        if self.authorizer is None:
            raise ConfigError("as_principal: expected settings that say who may see what, got none: everybody sees all")
        if not isinstance(principal, Principal):
            principal = self.authorizer.principal(principal, groups)
        seen = copy.copy(self)
        seen.principal, seen._whole = principal, False
        return seen

    @property
    def seen_as(self) -> list[str]:
        """Return the names of who asks: searches of different ones are not made together."""
        return [] if self.principal is None else sorted({self.principal.name, *self.principal.names})

    @contextmanager
    def _seeing(self) -> Iterator[tuple[Generation, Sight]]:
        """The artefacts for a question, and what may be seen of them."""
        try:
            with self._generations.using() as now:
                of = self.authorizer
                yield now, EVERYTHING if of is None else of.sight(self.principal, now.fields)
        except (ConfigError, NotFound, NotAllowed):
            raise
        except MogError as error:
            if self.principal is None or self.principal.name == ALL:
                raise
            _log.error("%s", error)
            raise MogError("this cannot be answered now; the log says why") from error

    @property
    def names(self) -> list[str]:
        """The corpora that are searched: those of which a document may be seen."""
        with self._seeing() as (now, sight):
            return self._named(now, sight)

    def _named(self, now: Generation, sight: Sight) -> list[str]:
        if sight.documents is None:
            return self.opened
        having = np.bincount(now.retrieval.corpora.owners[sight.documents], minlength=len(self.opened))
        return [name for name, documents in zip(self.opened, having, strict=True) if documents]

    def __getattr__(self, name: str) -> Any:
        if hasattr(type(self), name):
            return object.__getattribute__(self, name)  # A property failed: with its own error.
        if name not in PROJECT_ATTRIBUTES:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        # Functions are its methods, and properties have a value.
        return PROJECT_ATTRIBUTES[name].__get__(self, type(self))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop looking for new artefacts."""
        if not self._whole:
            return
        self._generations.close()
        for observer in self.observers.values():
            observer.close()

    @property
    def version(self) -> str:
        """Of the artefacts that are searched now."""
        return self._generations.current.version

    @property
    def trouble(self) -> str:
        """Why new artefacts cannot be taken over; empty if nothing is wrong."""
        trouble = self._generations.trouble
        # It may name what not everybody sees.
        return "new artefacts cannot be taken over" if trouble and self.principal is not None else trouble

    @property
    def loaded(self) -> float:
        """When they were opened, in seconds since 1970."""
        return self._generations.current.opened

    @property
    def methods(self) -> list[str]:
        """Methods that can be asked for: what they need has been materialised."""
        methods = [parse(AUTO, self.settings), *all_methods(self.settings)]
        with self._generations.using() as now:
            return [m.name for m in methods if not m.evaluation_only and self._has(now, m)]

    @property
    def families(self) -> dict[str, str]:
        """What methods are listed under where people choose one; those that are not named, with others of the core."""
        methods = (parse(name, self.settings) for name in self.methods)
        return {method.name: method.family for method in methods if method.family}

    def _has(self, now: Generation, method: Method) -> bool:
        if method.trained and not self.settings.trains:
            return False
        read = now.retrieval.corpora.read
        # `auto` stands for one method, not for all that it might have been.
        wanted = needs([now.retrieval.resolved(method)], self.settings)
        try:
            for key in wanted.shared:
                read(key, None)
            for key in wanted.per_corpus:
                read(key, self.opened[0])
            return bool(trained_methods([now.retrieval.resolved(method)], self.settings, read))
        except MissingArtefact:
            return False

    @contextmanager
    def _words_until_then(self, now: Generation, way: str = "") -> Iterator[None]:
        """Where a first run has not made what a search needs, say what can be searched already, and asked in a way."""
        try:
            yield
        except MissingArtefact as error:
            find, words = self._tools.store.find, by_words(self.settings)
            if all(find("embeddings/level_1", name) for name in self.opened) or not self._has(now, words):
                raise
            name = f"{words.name} → {way}" if way else words.name
            raise MissingArtefact(f"{error}; until then words can be searched, with method {name}") from error

    @property
    def ways(self) -> list[str]:
        """Ways of answering that the settings name; the first that retrieves is the default."""
        from mog_assets.answer.notation import combinations

        return [how.name for how in combinations(self.settings)]

    @property
    def corpora(self) -> list[CorpusInfo]:
        """The corpora that are searched, with what may be seen of them."""
        with self._seeing() as (now, sight):
            return reading.corpora(now.retrieval.corpora, now.fields, sight)

    def retrieve(
        self,
        question: str,
        *,
        budget: int | str | None = None,
        k: int | None = None,
        method: str = AUTO,
        corpora: Sequence[str] | None = None,
        where: Where | None = None,
        explain: bool = False,
    ) -> Retrieved:
        """The best passages for a question.

        Args:
            question: The question.
            budget: Most characters, or as `"1000 tokens"` most tokens of what reads the passages; that of the settings
                if neither `budget` nor `k` is given.
            k: Most passages.
            method: Any method except a control; `auto` is the one that the project's own questions chose.
            corpora: Corpora that passages may be of; None for all. Statistics of terms remain those of all.
            where: Documents that passages may be of; see `mog_assets.search.where`.
            explain: Say why each passage is there.

        Raises:
            ConfigError: an argument is wrong.
            NotFound: there is no such corpus.
            MissingArtefact: something that the method needs has not been materialised.
            MogError: a model is damaged, or belongs to another encoder or other levels.
        """
        return self.retrieve_many(
            [question], budget=budget, k=k, method=method, corpora=corpora, where=where, explain=explain
        )[0]

    def retrieve_many(
        self,
        questions: Sequence[str],
        *,
        budget: int | str | None = None,
        k: int | None = None,
        method: str = AUTO,
        corpora: Sequence[str] | None = None,
        where: Where | None = None,
        explain: bool = False,
    ) -> list[Retrieved]:
        """The best passages for each of several questions, as `retrieve`; faster than one at a time."""
        check_questions(questions, k=k)
        limit = self.settings.budget if k is None and budget is None else budget
        how, because = self.searching_method(method), ""
        if explain and not how.ranking and how.kind != AUTO:
            raise ConfigError(f"explain: expected a ranking ({', '.join(rankings())}), which {how.name} is not")
        if len(questions) > 1 and any(map(phrases, questions)):
            # Each is asked of the documents that have what it quotes.
            options: dict[str, Any] = {"budget": budget, "k": k, "method": method, "corpora": corpora, "where": where}
            return [self.retrieve(question, **options, explain=explain) for question in questions]
        with (
            tracing.span("retrieve", questions=len(questions), budget=budget, k=k),
            self._seeing() as (now, sight),
            self._words_until_then(now),
        ):
            retrieval = self._searching(now, sight, corpora, where, *questions[:1]).again(list(questions))
            if how.kind == AUTO:
                how, because = retrieval.chosen
            ranked = retrieval.passages(how, k, limit)
            weights = how.of.weights(retrieval, how, explain)
            groups = reading.groups(retrieval, how, k or self.settings.k)
            why = retrieval.reasons(how, ranked) if explain else None
            tracing.note(method=how.name, version=now.version, passages=len(ranked.rank))
            filtered = corpora is not None or bool(where) or not sight.whole
            results = [
                Retrieved(
                    question,
                    passages,
                    how.name,
                    because,
                    "" if passages else reading.nothing(how, weights[row], question, filtered),
                    now.version,
                    # Vectors are those of the question as it was typed. The words are those of all documents.
                    retrieval.analysed[row].taken if sight.whole and how.retriever != "dense" else {},
                    weights[row],
                    groups[row] if sight.whole else {},
                )
                for row, (question, passages) in enumerate(
                    zip(questions, reading.passages(retrieval, ranked, len(questions), why, sight), strict=True)
                )
            ]
        self._answered(questions, how.name, now.version)
        return results

    def ask(
        self,
        question: str,
        *,
        method: str | None = None,
        options: Mapping[str, str] | None = None,
        corpora: Sequence[str] | None = None,
        where: Where | None = None,
        earlier: Sequence[tuple[str, str]] = (),
        on_event: OnEvent | None = None,
    ) -> Answer:
        """Answer a question.

        An answer that is probably wrong is not given, but the sentence that most likely has it.

        Args:
            question: The question.
            method: A way of answering; by default the first in the settings that retrieves.
            options: Text by letter; none for an open question.
            corpora: See `retrieve`.
            where: See `retrieve`.
            earlier: The questions before it in a conversation and their answers, in order: see `standalone`.
            on_event: Called with each step when it is done, as JSON values: see `answer.ask.watched`.

        Raises:
            ConfigError: an argument is wrong.
            NotFound: there is no such corpus.
            MissingArtefact: something that the way of answering needs has not been materialised.
            MogError: no reader can be reached.
        """
        from mog_assets.serve.asking import ask, way

        # Checks the question.
        how, alone = way(method, self.settings), self.standalone(question, earlier)
        if earlier and on_event:
            on_event("standalone", {"question": alone})
        with (
            tracing.span("ask", way=how.name),
            self._seeing() as (now, sight),
            self._words_until_then(now, how.way),
        ):
            retrieval = self._searching(now, sight, corpora, where, alone)
            answer = ask(self._tools, retrieval, sight, how, (question, alone), options or {}, on_event, now.version)
        self._answered([alone], how.name, now.version)
        return answer

    def standalone(self, question: str, earlier: Sequence[tuple[str, str]]) -> str:
        """A question of a conversation as one that stands alone, to retrieve and ask with.

        What reads conversations makes it, see `registry.FOLLOW_UPS`; without that, it is the question as it is.

        Raises:
            MogError: it could not be made.
        """
        check_questions([question, *(before for before, _ in earlier)])
        rewrite = next(iter(FOLLOW_UPS.values()), None) if earlier else None
        return question if rewrite is None else rewrite(self._tools, question, earlier)

    def _answered(self, questions: Sequence[str], method: str, version: str) -> None:
        for observer in self.observers.values():
            if observer.listens:
                observer.answered(questions, method, version)

    def document(self, corpus: str, id: str) -> Document:
        """A document as it is searched.

        Raises:
            NotFound: there is no such corpus or document.
        """
        with self._seeing() as (now, sight):
            _check_corpora([corpus], self._named(now, sight), NotFound)
            row = self._row(now, sight, corpus, id)
            source = reading.source_of(id, row["metadata"])
            return Document(
                corpus,
                id,
                row["title"],
                row["text"],
                row["marks"],
                source,
                sight.shown(reading.own_metadata(row["metadata"])),
                now.version,
            )

    def _row(self, now: Generation, sight: Sight, corpus: str, id: str) -> dict[str, Any]:
        opened = now.retrieval.corpora
        position = opened.position.get((corpus, id))
        if position is None or not (sight.documents is None or sight.documents[position]):
            raise NotFound(f"id: expected the id of a document of corpus {corpus}, got {id[:200]!r}")
        return reading.rows(opened, [position])[position]

    def sentences(self, question: str, passage: Passage, most: int | None = None) -> list[tuple[int, int, float]]:
        """How similar each sentence of a passage is to a question.

        Args:
            question: The question.
            passage: The passage.
            most: How many sentences to look at, from the first; None for all. Each takes as long as a question.

        Returns:
            Start and end of each sentence in `passage.text`, and the cosine of its vector and the question's, −1 to 1.
        """
        ends = sentence_ends(passage.text).tolist()
        spans = [(start, end) for start, end in zip([0, *ends], ends, strict=False) if passage.text[start:end].strip()]
        spans = spans[:most]
        if not spans:
            return []
        encoder = self._tools.encoder
        (asked,) = encoder.questions.encode_uncached([question])
        vectors = encoder.encode_uncached([passage.text[start:end] for start, end in spans])
        similar = vectors.astype(np.float32) @ asked.astype(np.float32)
        return [(start, end, float(value)) for (start, end), value in zip(spans, similar, strict=True)]

    def searching_method(self, name: str) -> Method:
        """Return the method of a name."""
        method = parse(name, self.settings)
        if method.evaluation_only:
            raise ConfigError(
                f"method: expected a method that searches for questions without gold evidence, got {method.name!r}"
            )
        check_trained("method", method, self.settings)
        return method

    def _searching(
        self, now: Generation, sight: Sight, corpora: Sequence[str] | None, where: Where | None, question: str = ""
    ) -> Retrieval:
        """What finds passages of the documents that may be searched, for a question that may quote words."""
        retrieval = now.retrieval.among(self._allowed(now, sight, corpora, where))
        return retrieval.having(quoted(question, retrieval.corpora))

    def _allowed(
        self, now: Generation, sight: Sight, corpora: Sequence[str] | None, where: Where | None
    ) -> np.ndarray | None:
        """The documents that passages may be of; None if all."""
        allowed = sight.documents
        if corpora is not None:
            if isinstance(corpora, str):
                raise ConfigError(f"corpora: expected a list of names, got {corpora!r}")
            _check_corpora(corpora, self._named(now, sight), NotFound)
            mask = np.isin(now.retrieval.corpora.owners, [self.opened.index(name) for name in corpora])
            allowed = mask if allowed is None else allowed & mask
        if where is not None:
            mask = now.fields.mask(where, sight.known)
            allowed = mask if allowed is None else allowed & mask
        return allowed


def check_questions(questions: Sequence[str], **limits: int | None) -> None:
    """Check that questions, and limits of what is found, can be used."""
    if isinstance(questions, str):
        raise ConfigError("questions: expected a list of questions, got one text")
    for question in questions:
        if not isinstance(question, str) or not question.strip():
            raise ConfigError(f"question: expected a question, got {'white space' if question else repr(question)}")
        try:
            question.encode()
        except UnicodeEncodeError as error:
            raise ConfigError(f"question: expected text, got half a character (surrogate) at {error.start}") from None
        if len(question) > LONGEST_QUESTION:
            raise ConfigError(f"question: expected at most {LONGEST_QUESTION} characters, got {len(question)}")
    for name, value in limits.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ConfigError(f"{name}: expected an integer of at least 1, got {value!r}")


def _check_corpora(names: Sequence[str], existing: Sequence[str], kind: type[MogError]) -> None:
    for name in names:
        if name not in existing:
            raise kind(f"corpora: expected names of corpora ({', '.join(existing)}), got {name!r}")
    if not names:
        raise ConfigError(f"corpora: expected at least one of {', '.join(existing)}, got none")
