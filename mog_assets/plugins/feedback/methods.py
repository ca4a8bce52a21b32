"""Methods of an open project that write the log of use."""

from __future__ import annotations

from collections.abc import Sequence

from mog_assets.plugins.feedback.noting import Noting, quote_of
from mog_assets.registry import PROJECT_ATTRIBUTES
from mog_assets.resources.errors import ConfigError, NotFound
from mog_assets.serve.project import Project
from mog_assets.serve.results import Passage, Span
from mog_assets.serve.retriever import check_questions


def _noting(project: Project) -> Noting:
    noting = project.observers["use"]
    assert isinstance(noting, Noting)
    return noting


def used(
    project: Project, question: str, passage: Passage | Sequence[Span], *, method: str = "", text: str | None = None
) -> str:
    """Note in the log of use that a passage answered a question: see docs/use.md.

    Args:
        project: The project.
        question: The question, as it was asked.
        passage: A passage that was found, or where it stands. What is kept is the text that stands there now.
        method: The method that found the passage; empty if it is not known.
        text: The text of the passage as it was read, if known: it is compared, and not kept. That of a `Passage` is
            its own.

    Returns:
        What names the entry, for `withdraw`.

    Raises:
        ConfigError: `use.log` is false, an argument is wrong, or the documents have changed since.
        NotFound: there is no such corpus or document.
        MogError: the log cannot be written.
    """
    noting = _noting(project)
    noting.check()
    check_questions([question])
    spans, seen = (passage.spans, passage.text) if isinstance(passage, Passage) else (passage, text)
    if not spans:
        raise ConfigError("passage: expected at least one place, got none")
    if method:
        method = project.searching_method(method).name
    places = dict.fromkeys((span.corpus, span.document) for span in spans)
    documents = {place: project.document(*place) for place in places}
    quotes = [quote_of(documents[span.corpus, span.document].text, span, seen) for span in spans]
    return noting.used(question, quotes, method, next(iter(documents.values())).version)


def withdraw(project: Project, id: str) -> None:
    """Delete what `used` noted.

    Raises:
        NotFound: there is no such entry, or it has been deleted.
        MogError: the log cannot be written.
    """
    if not _noting(project).withdraw(id):
        raise NotFound(f"id: expected what `used` gave, got {id[:200]!r}: it may have been deleted")


def unnoted(project: Project) -> int:
    """Return the number of questions that could not be kept in the log of use, if there is one."""
    return _noting(project).failures


PROJECT_ATTRIBUTES.register("used", used)
PROJECT_ATTRIBUTES.register("withdraw", withdraw)
PROJECT_ATTRIBUTES.register("unnoted", property(unnoted))
