"""Requests made up from the OpenAPI description, right and wrong ones: none has an answer that is a fault of ours."""

import pytest

pytest.importorskip("schemathesis")
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from shared import examples

import mog_assets
from mog_assets.serve import http
from mog_assets.serve.problems import PROBLEM_TYPE

MODES = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)


@pytest.fixture(scope="module")
def described(sample_project):
    """The description of a server in this process."""
    with mog_assets.open(sample_project.config) as project:
        yield schemathesis.openapi.from_asgi("/openapi.json", http.app(project))


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_no_request_that_the_description_suggests_is_a_fault_of_the_server(described, mode):
    @given(st.data())
    @settings(
        max_examples=examples(20), deadline=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck)
    )
    def answered(data):
        case = data.draw(described.as_strategy(generation_mode=mode))
        answer = case.call(headers={"Host": "localhost"})
        assert answer.status_code < 500, (case.as_curl_command(), answer.text)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == [PROBLEM_TYPE]

    answered()
