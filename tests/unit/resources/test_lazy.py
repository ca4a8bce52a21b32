"""Values that are computed once: threads wait for no other instance."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from mog_assets.resources.lazy import cached_property

WAIT_SECONDS = 20


class Question:
    def __init__(self, meeting=None):
        self.meeting, self.times = meeting, 0

    @cached_property
    def answer(self):
        """What it says."""
        self.times += 1
        if self.meeting:
            self.meeting.wait(WAIT_SECONDS)
        return [self.times]


def test_a_value_is_computed_once_and_said_what_it_is():
    question = Question()
    assert question.answer is question.answer and question.times == 1
    assert Question.answer.__doc__ == "What it says."


def test_two_instances_are_computed_at_the_same_time():
    meeting = Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        values = list(pool.map(lambda question: question.answer, [Question(meeting), Question(meeting)]))
    assert values == [[1], [1]]
