"""How many connections the limit of open files leaves room for."""

import contextlib
import tempfile

import pytest

from mog_assets.serve import descriptors

resource = pytest.importorskip("resource")


@pytest.mark.parametrize(("hard", "room"), [(4096, True), (1000, False)])
def test_files_of_the_open_project_take_no_place_of_connections(monkeypatch, hard, room):
    raised = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: raised.append(limits[0]))
    with contextlib.ExitStack() as files:
        for _ in range(200):
            files.enter_context(tempfile.TemporaryFile())
        fit = descriptors.reserve(500)
    assert (fit == 500) == room
    # Those of the next artefacts, too.
    assert raised[0] >= fit + 400 and raised[0] <= hard
