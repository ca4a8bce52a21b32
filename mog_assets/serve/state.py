"""What the routes of a server share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from starlette.requests import Request

from mog_assets.serve.connections import Connections
from mog_assets.serve.limits import ServerOptions
from mog_assets.serve.observed import Metrics
from mog_assets.serve.queues import Slots, Together


class Serving(Connections):
    """A project, the connections of its server, and its queues.

    Searches, answers and documents have a queue each: an answer may wait for a language model for a minute, and no
    search should; nor should anybody who reads a document wait for those who search.
    """

    def __init__(self, project: Any, options: ServerOptions) -> None:
        super().__init__(options, Metrics(project))
        self.project = project
        # More searches at a time than processors would take turns; those that wait go together instead.
        searches = min(options.concurrency, max(os.cpu_count() or 1, 2))
        self.search = Slots("search", searches, options.waiting, options.timeout)
        self.together = Together(self.search)
        self.answers = Slots("answer", options.concurrency, options.waiting, options.ask_timeout)
        self.documents = Slots("document", options.concurrency, options.waiting, options.timeout)
        # What else `GET /v1/corpora` says, by key: routes add theirs.
        self.facts: dict[str, Callable[[], Any]] = {}
        # Beginnings of paths whose texts may be as long as a body: routes add theirs.
        self.long_texts: list[str] = []
        # Headers that pages of other sites may send: routes add theirs.
        self.headers = ["authorization", "content-type"]

    def project_for(self, request: Request) -> Any:
        """The project as who sent a request may see it."""
        if self.project.authorizer is None:
            return self.project
        # Set by the guard; without it nothing is shown.
        return self.project.as_principal(request.state.principal)

    def end(self) -> None:
        """Answer all requests that wait, and drop those that are not complete: the time to finish is over."""
        for work in self._queues:
            work.end()
        super().end()

    def close(self) -> None:
        """Drop what waits in the queues."""
        for work in self._queues:
            work.close()

    @property
    def _queues(self) -> tuple[Slots, ...]:
        return self.search, self.answers, self.documents
