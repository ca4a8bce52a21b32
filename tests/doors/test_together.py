"""Questions that wait at the same time are searched for together."""

import asyncio
import threading

import pytest

from mog_assets.resources.errors import MogError
from mog_assets.serve import queues
from mog_assets.serve.problems import Problem
from mog_assets.serve.queues import BatchedSearches, Slots


class Searches:
    """A search of one thread, whose first call begins only when it is let go."""

    def __init__(self, seconds=20.0, waiting=32):
        self.slots = Slots("search", 1, waiting, seconds)
        self.together, self.calls, self.go = BatchedSearches(self.slots), [], threading.Event()

    def _search(self, questions):
        self.go.wait(20)
        self.calls.append(list(questions))
        if "wrong" in questions:
            raise MogError("wrong question")
        return [question.upper() for question in questions]

    def ask(self, question, key="same", finish=lambda result: result):
        return asyncio.ensure_future(self.together.run(question, key, self._search, finish))

    async def ask_many(self, questions, **keywords):
        tasks = [self.ask(question, **keywords) for question in questions]
        await asyncio.sleep(0.1)
        self.go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)


def test_questions_that_wait_go_together_and_each_gets_its_own_answer():
    searches = Searches()
    assert asyncio.run(searches.ask_many("abcdef")) == list("ABCDEF")
    # The first did not wait for others.
    assert searches.calls == [["a"], list("bcdef")] and searches.slots.inside == 0


def test_no_more_go_together_than_may(monkeypatch):
    monkeypatch.setattr(queues, "MOST", 2)
    searches = Searches()
    assert asyncio.run(searches.ask_many("abcdef")) == list("ABCDEF")
    assert [len(call) for call in searches.calls] == [1, 2, 2, 1]


def test_what_asks_for_something_else_is_searched_for_alone():
    searches = Searches()

    async def asked():
        tasks = [searches.ask(question, key=question in "bd") for question in "abcd"]
        await asyncio.sleep(0.1)
        searches.go.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(asked()) == list("ABCD")
    assert searches.calls == [["a"], ["b", "d"], ["c"]]


def test_one_that_fails_takes_no_other_with_it():
    def finish(result):
        if result == "C":
            raise ValueError("unfinished")
        return result

    searches = Searches()
    a, b, wrong, c = asyncio.run(searches.ask_many(["a", "b", "wrong", "c"], finish=finish))
    assert (a, b) == ("A", "B") and isinstance(wrong, MogError) and isinstance(c, ValueError)
    assert searches.slots.inside == 0


def test_a_question_that_nobody_waits_for_any_more_is_not_searched_for():
    searches = Searches()

    async def asked():
        tasks = [searches.ask(question) for question in "abc"]
        await asyncio.sleep(0.1)
        tasks[1].cancel()
        await asyncio.sleep(0.1)
        searches.go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    a, b, c = asyncio.run(asked())
    assert (a, c) == ("A", "C") and isinstance(b, asyncio.CancelledError)
    assert searches.calls == [["a"], ["c"]] and searches.slots.inside == 0


@pytest.mark.parametrize(("seconds", "waiting", "status"), [(0.2, 32, 503), (20.0, 1, 429)])
def test_those_that_cannot_be_taken_on_are_told_and_leave_nothing_behind(seconds, waiting, status):
    searches = Searches(seconds, waiting)

    async def asked():
        tasks = [searches.ask(question) for question in "abc"]
        await asyncio.sleep(0.4)
        searches.go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    *_, last = asyncio.run(asked())
    assert isinstance(last, Problem) and last.status == status
    # The thread has a turn for each of them.
    searches.slots._pool.shutdown(wait=True)
    assert "c" not in sum(searches.calls, []) and not searches.together._waiting
