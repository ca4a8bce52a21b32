"""The method of an open project that puts documents into a corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mog_assets.plugins.pushing import pushed
from mog_assets.registry import PROJECT_ATTRIBUTES
from mog_assets.resources.errors import NotFound
from mog_assets.serve.project import Project


def push(project: Project, corpus: str, put: Sequence[Mapping[str, Any]] = (), delete: Sequence[str] = ()) -> int:
    """Put documents into a corpus that takes them (its source is `pushed://FILE`), and delete some: all or none.

    They are on disk when this returns, and are searched after the next run. To push the same again changes nothing.

    Args:
        project: The project.
        corpus: The corpus.
        put: Documents with `id`, `text` and, if wanted, `title` and `metadata`; each replaces that of its id.
        delete: Ids of documents; those that are not there are passed over.

    Returns:
        How many documents are other than before.

    Raises:
        NotFound: there is no such corpus, it takes none, or not from who asks.
        ConfigError: a document cannot be used; the message says which, and why.
        NotAllowed: nobody says who asks, or the rules cannot be read.
        MogError: the file of the corpus cannot be written.
    """
    authorizer, principal, files = project.authorizer, project.principal, pushed.files_of(project.settings)
    takers = [
        name
        for name in project.opened
        if name in files and (authorizer is None or authorizer.may_push(principal, name))
    ]
    if corpus not in takers:
        raise NotFound(f"corpus: expected one that takes documents ({', '.join(takers) or 'none'}), got {corpus!r}")
    return pushed.push(files[corpus], put, delete, project.settings.corpora[corpus].max_document_bytes)


PROJECT_ATTRIBUTES.register("push", push)
