"""A server of a project whose use is not noted."""

import pytest
from served import Served

pytestmark = pytest.mark.full
QUESTION = "How deep should garlic cloves be planted?"


@pytest.fixture(scope="module")
def served(sample_project, tmp_path_factory):
    started = Served(sample_project.neural, tmp_path_factory.mktemp("serve"))
    yield started
    started.end()


def test_use_is_noted_only_where_it_is_switched_on(served, sample_project):
    place = {"corpus": "garden", "document": "garlic", "start": 0, "end": 20}
    status, _, problem = served.call("/v1/used", {"question": QUESTION, "passage": place})
    assert status == 400 and "`use: {log: true}`" in problem["detail"]
    assert served.call("/v1/used/x", method="DELETE")[0] == 404
    assert served.call("/v1/corpora")[2]["use"] is False
    assert not (sample_project.home / "use").exists()
