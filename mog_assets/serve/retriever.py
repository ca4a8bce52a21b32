"""An open project as far as searches need it: `project.Project` adds answers, documents and lists."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.config.budget import Budget
from mog_assets.resources import tracing
from mog_assets.resources.errors import ConfigError, MissingArtefact, MogError, NotAllowed, NotFound
from mog_assets.search import groups
from mog_assets.search.methods import AUTO, Method, check_trained, parse, rankings
from mog_assets.search.quotes import QUOTED, phrases, quoted
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.where import Where
from mog_assets.serve import available, reading
from mog_assets.serve.generations import Generation, Generations
from mog_assets.serve.hooks import ALL, Principal, opened_authorizer, opened_observers
from mog_assets.serve.reading import EVERYTHING, Sight
from mog_assets.serve.results import SearchResult

_log = logging.getLogger(__name__)
# Characters of a question; a longer one is a document.
LONGEST_QUESTION = 10_000


class Retriever:
    """A built project that is searched; see `project.Project` for arguments and attributes."""

    def __init__(self, settings: Settings, names: list[str], refresh: float | None, keep: bool) -> None:
        self.settings = settings
        self.opened = names
        self.authorizer = opened_authorizer(settings)
        self.principal: Principal | None = None
        self._sees_all = True
        self._budget = Budget.of(settings.budget)
        # What people ask is not stored with vectors and replies.
        self._tools = Tools(settings, keep=False)
        self._generations = Generations(self._tools, names, refresh, keep)
        self.observers = opened_observers(settings, keep)

    def as_principal(self, principal: str | Principal, groups: Sequence[str] = ()) -> Self:
        """Return the project as somebody sees it: documents that they may not see are as if they were not there.

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
        seen.principal, seen._sees_all = principal, False
        return seen

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop looking for new artefacts."""
        if not self._sees_all:
            return
        self._generations.close()
        for observer in self.observers.values():
            observer.close()

    def _now(self) -> Generation:
        """Return the artefacts for a question; they stay whole as long as it takes."""
        if self._generations.ended.is_set():
            raise MogError("the project is closed: open it again with `mog_assets.open`")
        return self._generations.current or self._generations.latest()

    @contextmanager
    def _seeing(self, way: str | None = None) -> Iterator[tuple[Generation, Sight]]:
        """Yield the artefacts for a question, and what may be seen of them; an error may name a way of answering."""
        try:
            now, of = self._now(), self.authorizer
            try:
                yield now, EVERYTHING if of is None else of.sight(self.principal, now.fields)
            except MissingArtefact as error:
                if way is None or (message := available.until_then(self._tools, now, self.opened, way)) is None:
                    raise
                raise MissingArtefact(f"{error}; {message}") from error
        except (ConfigError, NotFound, NotAllowed):
            raise
        except MogError as error:
            if self.principal is None or self.principal.name == ALL:
                raise
            _log.error("%s", error)
            raise MogError("this cannot be answered now; the log says why") from error

    def _named(self, now: Generation, sight: Sight) -> list[str]:
        """Return the corpora of which a document may be seen."""
        if sight.documents is None:
            return self.opened
        counts = np.bincount(now.retrieval.corpora.owners[sight.documents], minlength=len(self.opened))
        return [name for name, documents in zip(self.opened, counts, strict=True) if documents]

    def search(
        self,
        question: str,
        *,
        budget: int | str | None = None,
        k: int | None = None,
        method: str = AUTO,
        corpora: Sequence[str] | None = None,
        where: Where | None = None,
        explain: bool = False,
    ) -> SearchResult:
        """Return the best passages for a question.

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
        return self.search_many(
            [question], budget=budget, k=k, method=method, corpora=corpora, where=where, explain=explain
        )[0]

    def search_many(
        self,
        questions: Sequence[str],
        *,
        budget: int | str | None = None,
        k: int | None = None,
        method: str = AUTO,
        corpora: Sequence[str] | None = None,
        where: Where | None = None,
        explain: bool = False,
    ) -> list[SearchResult]:
        """Return the best passages for each of several questions, as `search`; faster than one at a time."""
        check_questions(questions, k=k)
        limit = self._budget if k is None and budget is None else None if budget is None else Budget.of(budget)
        how, method_reason = None if method == AUTO else self.searching_method(method), ""
        if explain and how is not None and not how.ranking and how.kind != AUTO:
            raise ConfigError(f"explain: expected a ranking ({', '.join(rankings())}), which {how.name} is not")
        if len(questions) > 1 and any(map(phrases, questions)):
            # Each is asked of the documents that have what it quotes.
            options: dict[str, Any] = {"budget": budget, "k": k, "method": method, "corpora": corpora, "where": where}
            return [self.search(question, **options, explain=explain) for question in questions]
        with (
            tracing.span("retrieve", questions=len(questions), budget=budget, k=k),
            self._seeing("") as (now, sight),
        ):
            retrieval = self._searching(now, sight, corpora, where, *questions[:1]).with_queries(list(questions))
            if how is None or how.kind == AUTO:
                how, method_reason = retrieval.chosen
            ranked = retrieval.passages(how, k, limit)
            weights = how.of.weights(retrieval, how) if explain or how.of.ranking is None else [None] * len(questions)
            details = groups.details(retrieval, how, k or self.settings.k) if how.limit else [{}] * len(questions)
            reasons = retrieval.reasons(how, ranked) if explain else None
            tracing.note(method=how.name, version=now.version, passages=len(ranked.rank))
            filtered = corpora is not None or bool(where) or not sight.is_complete
            results = [
                SearchResult(
                    question,
                    passages,
                    how.name,
                    method_reason,
                    "" if passages else available.nothing(how, weights[row], question, filtered),
                    now.version,
                    # Vectors are those of the question as it was typed. The words are those of all documents.
                    retrieval.analysed[row].taken if sight.is_complete and how.retriever != "dense" else {},
                    weights[row],
                    details[row] if sight.is_complete else {},
                )
                for row, (question, passages) in enumerate(
                    zip(questions, reading.passages(retrieval, ranked, len(questions), reasons, sight), strict=True)
                )
            ]
        self._answered(questions, how.name, now.version)
        return results

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
        """Return what finds passages of the documents that may be searched, for a question that may quote words."""
        retrieval = now.retrieval.restricted_to(self._allowed(now, sight, corpora, where))
        return retrieval.requiring(quoted(question, retrieval.corpora)) if QUOTED.search(question) else retrieval

    def _allowed(
        self, now: Generation, sight: Sight, corpora: Sequence[str] | None, where: Where | None
    ) -> np.ndarray | None:
        """Return the documents that passages may be of; None if all."""
        allowed = sight.documents
        if corpora is not None:
            if isinstance(corpora, str):
                raise ConfigError(f"corpora: expected a list of names, got {corpora!r}")
            check_corpora(corpora, self._named(now, sight), NotFound)
            mask = np.isin(now.retrieval.corpora.owners, [self.opened.index(name) for name in corpora])
            allowed = mask if allowed is None else allowed & mask
        if where is not None:
            mask = now.fields.mask(where, sight.known)
            allowed = mask if allowed is None else allowed & mask
        return allowed

    def _answered(self, questions: Sequence[str], method: str, version: str) -> None:
        for observer in self.observers.values():
            if observer.listens:
                observer.answered(questions, method, version)


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


def check_corpora(names: Sequence[str], existing: Sequence[str], kind: type[MogError]) -> None:
    """Check that corpora are some of those that exist; raise an error of a kind if not."""
    for name in names:
        if name not in existing:
            raise kind(f"corpora: expected names of corpora ({', '.join(existing)}), got {name!r}")
    if not names:
        raise ConfigError(f"corpora: expected at least one of {', '.join(existing)}, got none")
