"""`mog serve` with all its options over a project that does what a test wants, so that it starts in a second.

Run as `python stand_in.py OPTIONS`. A question says what happens: `wait` is answered when the server is stopped or
nobody waits any more, `gone` finds that the home folder is gone.
"""

import errno
import sys
import time
from types import SimpleNamespace

import mog_assets
from mog_assets.serve.results import Answer, Document, SearchResult

WAIT_SECONDS = 60


class Project:
    version, trouble, loaded, methods, ways, corpora = "1", "", 0.0, ["auto"], ["one-step"], []
    authorizer = None
    unnoted, names, seen_as, families = 0, ["c"], [], {}

    def __init__(self, settings):
        self.settings = SimpleNamespace(
            budget=4000, corpora={"c": SimpleNamespace(path=".")}, use=SimpleNamespace(log=False)
        )

    def search_many(self, questions, **options):
        return [self.search(question, **options) for question in questions]

    def search(self, question, **_):
        if question == "wait":
            time.sleep(WAIT_SECONDS)
        if question == "gone":
            # As Arrow says it.
            raise FileNotFoundError(errno.ENOENT, "Failed to open local file '/nowhere/home'")
        return SearchResult(question, [], "fused", "", "nothing", "1")

    def ask(self, question, on_event=None, **_):
        for _ in range(WAIT_SECONDS * 10):
            on_event and on_event("thought", {"text": "hm"})
            if question != "wait":
                break
            time.sleep(0.1)
        return Answer(question, "yes", "", "one-step", "r", [], "1")

    def document(self, corpus, id):
        return Document(corpus, id, "", "text", (), None, {}, "1")

    def close(self):
        pass


if __name__ == "__main__":
    from mog_assets.cli import serve

    mog_assets.open = Project
    # There are no artefacts to wait for.
    serve.wait_for_words = lambda settings: None
    sys.exit(serve.serve(sys.argv[1:]))
