"""Make a follow-up of a conversation a question that stands alone: by the language model that answers questions.

Without a model it is made by the words that refer back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from mog_assets.answer.ask import reader
from mog_assets.answer.extractive import Extractive
from mog_assets.answer.prompted import QUERY
from mog_assets.answer.replies import query
from mog_assets.answer.roles import AnswerRequest, Reply, Role
from mog_assets.build.tools import Tools
from mog_assets.registry import FOLLOW_UPS
from mog_assets.resources.errors import MogError
from mog_assets.text.languages import DEFAULT, detected
from mog_assets.text.terms import content_words

# Words that stand for what was named before, and those that begin a question which goes on from another one; not those
# that mostly stand for nothing, such as `there`. Languages without blanks have theirs as parts of a text.
_REFERRING = {
    code: set(words.split())
    for code, words in {
        "de": "er sie ihn ihm ihr ihre ihrer ihrem ihren seine seiner seinem seinen deren dessen dieser dieses diese "
        "diesem diesen dort davon dazu damit dafür dabei darin daran darauf daraus denen",
        "en": "it its itself they them their theirs this these those he him his she her hers one ones",
        "es": "él ella ellos ellas su sus suyo suya eso esos esas aquel aquella allí ahí",
        "fr": "elle ils elles lui leur leurs son sa ses cet cette ces cela ça celui celle ceux celles",
        "it": "esso essa essi esse lui lei loro suo sua suoi sue questo questa questi queste quello quella quelli "
        "quelle",
        "pt": "ele ela eles elas seu sua seus suas isto isso aquele aquela lá",
    }.items()
}
_WITHOUT_BLANKS = {
    "ja": ("それ", "これ", "その", "この", "そこ", "ここ", "あれ", "彼"),
    "zh": ("它", "他", "她", "这", "那", "其", "該", "该", "此"),
}
_GOING_ON = {
    "de": {"und", "oder", "aber"},
    "en": {"and", "or", "but", "what about", "how about"},
    "es": {"y", "o", "pero"},
    "fr": {"et", "ou", "mais"},
    "it": {"e", "o", "ma"},
    "pt": {"e", "ou", "mas"},
}
_WORD = re.compile(r"[^\W\d_]+")
# A word further on mostly stands for what the question itself names. Of 30 follow-ups 27 have one so early, and of
# 3,000 questions of SQuAD, which all stand alone, 8 %; without a limit it is 28 and 12 %.
_FIRST_WORDS, _FIRST_CHARACTERS = 8, 8


def refers_back(question: str, language: str) -> bool:
    """Return whether a question names something only by what was said before it."""
    if parts := _WITHOUT_BLANKS.get(language):
        return any(part in question[:_FIRST_CHARACTERS] for part in parts)
    words = _WORD.findall(question.lower())[:_FIRST_WORDS]
    begins = {" ".join(words[:1]), " ".join(words[:2])}
    return not (begins.isdisjoint(_GOING_ON.get(language, ())) and _REFERRING.get(language, set()).isdisjoint(words))


def standalone(question: str, earlier: Sequence[str]) -> str:
    """Return a question to search by: one that refers back stands twice, around the words of the last that does not.

    Its own words weigh more so than those of the other, which is often about something else
    (`benchmarks/conversations.py` compares the ways).
    """
    language = detected("\n".join([*earlier, question])) or DEFAULT
    if not earlier or not refers_back(question, language):
        return question
    # Nothing came before the first one.
    subject = next((before for before in reversed(earlier) if not refers_back(before, language)), *earlier[:1])
    return around(question, subject, language)


def around(question: str, subject: str, language: str) -> str:
    """Return a question twice, and between that the words of another that say what it is about."""
    return " ".join([question, *content_words(subject, language), question])


def _by_words(role: Extractive, request: AnswerRequest, earlier: Sequence[tuple[str, str]]) -> Reply[str]:
    return role.reply([], lambda: standalone(request.question, [before for before, _ in earlier]))


def _turns(request: AnswerRequest, earlier: Sequence[tuple[str, str]]) -> dict[str, Any]:
    turns = [
        piece
        for n, (question, answer) in enumerate(earlier, 1)
        for piece in ((f"question {n}", question), (f"answer {n}", answer))
    ]
    return {"earlier": turns}


STANDALONE: Role[str] = Role(
    name="standalone",
    package=__package__,
    prompt="standalone",
    pieces=_turns,
    rules=_by_words,
    parse=query,
    form=QUERY,
)


def rewritten(tools: Tools, question: str, earlier: Sequence[tuple[str, str]]) -> str:
    """Return a question of a conversation as one that stands alone.

    Raises:
        MogError: the model gave none.
    """
    reply = reader(tools).play(STANDALONE, AnswerRequest("question", question), earlier)
    if reply.value is None:
        raise MogError(f"the follow-up could not be made a question that stands alone: {reply.failure}")
    return reply.value


FOLLOW_UPS.register("conversation", rewritten)
