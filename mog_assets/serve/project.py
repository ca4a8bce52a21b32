"""A built project, opened for questions: passages, answers and documents, while runs go on making new artefacts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets import config as configuration
from mog_assets.config import Settings
from mog_assets.registry import FOLLOW_UPS, PROJECT_ATTRIBUTES
from mog_assets.resources import tracing
from mog_assets.resources.errors import ConfigError, NotFound
from mog_assets.search.methods import AUTO, all_methods, parse
from mog_assets.search.where import Where
from mog_assets.serve import available, reading
from mog_assets.serve.results import Answer, CorpusInfo, Document, Passage
from mog_assets.serve.retriever import Retriever, check_corpora, check_questions
from mog_assets.text.cuts import sentence_ends

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
    check_corpora(names, list(settings.corpora), ConfigError)
    return Project(settings, names, refresh if keep else None, keep)


class Project(Retriever):
    """A built project; made by `mog_assets.open`. All methods may be called from several threads at once.

    A question is answered from artefacts that belong together. When a run has replaced those of a corpus, later
    questions see all of the new ones. Settings are read once: after a change of `mog.yaml`, open the project again.

    Args:
        settings: Of the project.
        names: The corpora that are searched together.
        refresh: See `open`.
        keep: See `open`.

    Example:
        with mog_assets.open("mog.yaml") as project:
            for passage in project.search("How deep should garlic be planted?", budget=1000).passages:
                print(passage.document, passage.start, passage.end, passage.score, passage.text)
            print(project.ask("When is garlic harvested?").answer)

    Attributes:
        opened: The corpora that are searched together, whoever asks.
        authorizer: Says who may see what; None if everybody sees everything.
        principal: Who asks; None if nobody was named.
        observers: What is told of the questions that were answered, by name.
    """

    @property
    def seen_as(self) -> list[str]:
        """Return the names of who asks: searches of different ones are not made together."""
        return [] if self.principal is None else sorted({self.principal.name, *self.principal.names})

    @property
    def names(self) -> list[str]:
        """The corpora that are searched: those of which a document may be seen."""
        with self._seeing() as (now, sight):
            return self._named(now, sight)

    def __getattr__(self, name: str) -> Any:
        if hasattr(type(self), name):
            return object.__getattribute__(self, name)  # A property failed: with its own error.
        if name not in PROJECT_ATTRIBUTES:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        # Functions are its methods, and properties have a value.
        return PROJECT_ATTRIBUTES[name].__get__(self, type(self))

    @property
    def version(self) -> str:
        """Of the artefacts that are searched now."""
        return self._generations.latest().version

    @property
    def trouble(self) -> str:
        """Reason why new artefacts cannot be taken over; empty if nothing is wrong."""
        trouble = self._generations.trouble
        # It may name what not everybody sees.
        return "new artefacts cannot be taken over" if trouble and self.principal is not None else trouble

    @property
    def loaded(self) -> float:
        """Return when they were opened, in seconds since 1970."""
        return self._generations.latest().opened

    @property
    def methods(self) -> list[str]:
        """Methods that can be asked for: what they need has been materialised."""
        methods, now = [parse(AUTO, self.settings), *all_methods(self.settings)], self._now()
        return [m.name for m in methods if not m.evaluation_only and available.has(now, m)]

    @property
    def families(self) -> dict[str, str]:
        """Return what methods are listed under where people choose one; those not named, with others of the core."""
        methods = (parse(name, self.settings) for name in self.methods)
        return {method.name: method.family for method in methods if method.family}

    @property
    def ways(self) -> list[str]:
        """Ways of answering that the settings name; the first that retrieves is the default."""
        from mog_assets.answer.notation import combinations

        return [how.name for how in combinations(self.settings)]

    @property
    def corpora(self) -> list[CorpusInfo]:
        """The corpora that are searched, with what may be seen of them."""
        with self._seeing() as (now, sight):
            return available.corpora(now.retrieval.corpora, now.fields, sight)

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
            corpora: See `search`.
            where: See `search`.
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
            self._seeing(how.way) as (now, sight),
        ):
            retrieval = self._searching(now, sight, corpora, where, alone)
            answer = ask(self._tools, retrieval, sight, how, (question, alone), options or {}, on_event, now.version)
        self._answered([alone], how.name, now.version)
        return answer

    def standalone(self, question: str, earlier: Sequence[tuple[str, str]]) -> str:
        """Return a question of a conversation as one that stands alone, to search and ask with.

        What reads conversations makes it, see `registry.FOLLOW_UPS`; without that, it is the question as it is.

        Raises:
            MogError: it could not be made.
        """
        check_questions([question, *(before for before, _ in earlier)])
        rewrite = next(iter(FOLLOW_UPS.values()), None) if earlier else None
        return question if rewrite is None else rewrite(self._tools, question, earlier)

    def document(self, corpus: str, id: str) -> Document:
        """Return a document as it is searched.

        Raises:
            NotFound: there is no such corpus or document.
        """
        with self._seeing() as (now, sight):
            check_corpora([corpus], self._named(now, sight), NotFound)
            opened = now.retrieval.corpora
            position = opened.position.get((corpus, id))
            if position is None or not (sight.documents is None or sight.documents[position]):
                raise NotFound(f"id: expected the id of a document of corpus {corpus}, got {id[:200]!r}")
            row = reading.rows(opened, [position])[position]
            source = reading.source_of(id, row["notes"])
            return Document(
                corpus,
                id,
                row["title"],
                row["text"],
                row["marks"],
                source,
                sight.shown(row["metadata"]),
                now.version,
            )

    def sentences(self, question: str, passage: Passage, most: int | None = None) -> list[tuple[int, int, float]]:
        """Return how similar each sentence of a passage is to a question.

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
        (question_vector,) = encoder.questions.encode_uncached([question])
        vectors = encoder.encode_uncached([passage.text[start:end] for start, end in spans])
        similar = vectors.astype(np.float32) @ question_vector.astype(np.float32)
        return [(start, end, float(value)) for (start, end), value in zip(spans, similar, strict=True)]
