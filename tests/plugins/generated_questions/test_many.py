"""Many requests to a language model at once: in order, each paid for once, none lost by the failure of another."""

import traceback

import pytest
from chat_client import KEY, ask, client, server  # noqa: F401
from chat_server import refusal, status

from mog_assets.plugins.generated_questions.asking import Failure, complete_many
from mog_assets.resources.chat import Completion, SpendCapReached
from mog_assets.resources.errors import MogError

pytestmark = pytest.mark.full


def test_message_that_is_not_text_is_a_failure_of_its_own(server):
    answers = complete_many(client(), [ask("broken \ud800"), ask("herons")])
    assert isinstance(answers[0], Failure) and "UTF-8" in answers[0].reason
    assert answers[1].text == "about herons"


def test_many_come_in_order_concurrently_and_one_failure_loses_no_other(server, tmp_path):
    server.seconds = 0.05
    server.script([refusal("not that one")], of="topic 4")
    done = []
    llm = client(tmp_path, concurrency=3)
    answers = complete_many(llm, [ask(f"topic {i}") for i in range(9)], done.append)
    assert answers[4] == Failure("llm: gpt-4o-mini refused: not that one")
    assert [a.text for a in answers if isinstance(a, Completion)] == [f"about topic {i}" for i in range(9) if i != 4]
    assert done == [1] * 9
    assert 1 < server.most_at_once <= 3
    assert (llm.tally.calls, llm.tally.cached, llm.tally.failures) == (9, 0, 1)


def test_equal_requests_of_a_batch_are_asked_once(server):
    done = []
    llm = client()
    answers = complete_many(llm, [ask("herons"), ask("otters"), ask("herons")], done.append)
    assert [answer.text for answer in answers] == ["about herons", "about otters", "about herons"]
    assert sum(done) == 3
    assert llm.tally.calls == 2


def test_wrong_key_ends_a_batch_and_shows_no_key(server, tmp_path, caplog):
    # Some endpoints quote the key.
    server.script([status(401, f"wrong key {KEY}")] * 40)
    llm = client(tmp_path, concurrency=2)
    with pytest.raises(MogError, match="set OPENAI_API_KEY") as raised:
        complete_many(llm, [ask(f"topic {i}") for i in range(40)])
    assert KEY not in "".join(traceback.format_exception(raised.value)) + caplog.text
    assert len(server.calls) < 40


def test_spend_cap_stops_cleanly_and_a_higher_one_resumes(server, tmp_path):
    # 5 words in, 3 out: 8 USD each.
    priced = {"price_in": 1_000_000, "price_out": 1_000_000, "concurrency": 2}
    server.seconds = 0.02
    requests = [ask(f"topic_{i}") for i in range(20)]
    server.answer = lambda messages: "one two three"
    llm = client(tmp_path, budget_usd=40, **priced)
    with pytest.raises(SpendCapReached, match=r"has spent \d+ USD, the cap is 40: raise it and run again") as raised:
        complete_many(llm, requests)
    paid = len(server.calls)
    # Five reach the cap, and one was under way beside the last of them.
    assert 5 <= paid <= 6
    assert llm.tally.usd == 8 * paid
    assert f"has spent {8 * paid} USD" in str(raised.value)
    more = client(tmp_path, budget_usd=1000, **priced)
    answers = complete_many(more, requests)
    assert [a.cached for a in answers].count(True) == paid
    assert more.tally.usd == 8 * (20 - paid)
    assert set(server.delivered.values()) == {1}
    nothing_left = client(tmp_path, budget_usd=0, **priced)
    assert complete_many(nothing_left, requests) == [
        Completion(**{**vars(answer), "cached": True}) for answer in answers
    ]
