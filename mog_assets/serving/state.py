"""What the routes of a server share."""

from __future__ import annotations

import threading
from typing import Any

from mog_assets.serving.limits import Options, Work
from mog_assets.serving.observed import Metrics


class Serving:
    """A project, the options of its server, and its queues.

    Searches and answers have a queue each: an answer may wait for a language model for a minute, and no search should.
    """

    def __init__(self, project: Any, options: Options) -> None:
        self.project, self.options = project, options
        self.search = Work("search", options.concurrency, options.waiting, options.timeout)
        self.answers = Work("answer", options.concurrency, options.waiting, options.ask_timeout)
        self.metrics = Metrics(project)
        self.stopping = threading.Event()

    def close(self) -> None:
        """Drop what waits in the queues."""
        self.search.close()
        self.answers.close()
