"""Every role against an endpoint that answers as real models do: a reply is read for what it says, or is a failure."""

import contextlib
import json
import time
from dataclasses import dataclass

import pytest
from chat_server import ChatServer, Reply, completion, extra_input, faults, refusal, refused_parameter, says

from mog_assets.answer.prompted import Prompted
from mog_assets.answer.replies import CITED, MAX_CHARS, Unparsable, choice, complete_text, only, shown, text_answer
from mog_assets.answer.roles import AnswerRequest, RetrievedPassage
from mog_assets.papers.at_rag.judging import JUDGE, Judgement
from mog_assets.papers.at_rag.roles import CLASSIFY, GRADE_SUPPORT, GRADE_USEFULNESS, REWRITE, THINK
from mog_assets.papers.briefcontext.roles import EXTRACT, NOTHING, REDUCE, extraction
from mog_assets.plugins.generated_questions import asking
from mog_assets.plugins.generated_questions.candidates import Dropped
from mog_assets.plugins.generated_questions.windows import Extract
from mog_assets.resources.chat import AnswerForm, LlmSettings, RequestFailed
from mog_assets.resources.errors import MogError
from mog_assets.resources.llm import OpenAIModel

# Roles of all papers, and the maker of questions.
pytestmark = pytest.mark.whole

OPTIONS = {"A": "insulin", "B": "glucagon", "C": "cortisol", "D": "aldosterone"}
CHOICE = AnswerRequest("c", "Which hormone lowers blood glucose?", OPTIONS, "choice")
YES_NO = AnswerRequest("y", "Does insulin lower blood glucose?", {"A": "yes", "B": "no", "C": "maybe"}, "yesno")
OPEN = AnswerRequest("o", "What lowers blood glucose?")
PASSAGES = [RetrievedPassage("med", "d1", "Hormones", "Insulin lowers blood glucose. The pancreas makes it.")]
WINDOW = Extract("d1", "Hormones", 0, "plain", "sentence", 0, "Insulin lowers blood glucose. The pancreas makes it.")
TEXT = "Insulin lowers blood glucose."

FAILED = "failed"


@dataclass(frozen=True)
class Role:
    """A role, what it is asked for, and how its replies read.

    Attributes:
        call: Value and failure of one call.
        good: What a model answers that keeps to the form; a text where a text is asked for.
        value: What `good` says.
        other: Another answer in the same form.
        foreign: An answer in another language, and what it says; `FAILED` where words of a list are asked for.
        words: Key whose value is free text, if there is one.
    """

    call: object
    good: object
    value: object
    other: object
    foreign: tuple
    words: str = ""

    @property
    def plain(self):
        return isinstance(self.good, str)


def role(method, *given):
    """Call a method of the reader; or a role of a paper."""

    def call(llm):
        reader = Prompted(llm.complete, "loopback-1", failures=(RequestFailed,))
        reply = getattr(reader, method)(*given) if isinstance(method, str) else reader.play(method, *given)
        return reply.value, reply.failure

    return call


def question(llm):
    (row,) = asking.ask(llm, [WINDOW], "loopback-1", {}, lambda done: None).rows
    found = asking.read(WINDOW, row)
    if isinstance(found, Dropped):
        return None, found.detail or found.reason
    return (found.question, found.answer, found.quotes), ""


def chosen(letter, thinking="It follows."):
    return {"step_by_step_thinking": thinking, "answer_choice": letter}


def said(answer, thinking="It follows."):
    return {"step_by_step_thinking": thinking, "answer": answer}


def verdict(word):
    return {"verdict": word}


def marks(correctness):
    return {"correctness": correctness, "completeness": 5, "relevance": 9}


def asks(question, answer="Insulin."):
    return {"question": question, "answer": answer, "quote": "Insulin lowers blood glucose."}


def letter_in_chinese(letter):
    return f"好的，答案如下：\n{json.dumps(chosen(letter, '胰岛素降低血糖。'), ensure_ascii=False)}"


def text_in_german(key, text):
    return f"Gern, hier ist das Ergebnis:\n{json.dumps({key: text}, ensure_ascii=False)}"


GERMAN = "Insulin senkt den Blutzucker."
ASKED = "What lowers blood glucose?"
QUOTES = (TEXT,)


def picks(call, foreign):
    """A role that picks an option."""
    return Role(call, chosen("A"), "A", chosen("B"), foreign)


def tells(call):
    """A role that answers an open question."""
    foreign = (text_in_german("answer", GERMAN), GERMAN)
    return Role(call, said("Insulin."), "Insulin.", said("Glucagon."), foreign, "answer")


def rules(call, word, other, foreign):
    """A role that says one word of a list."""
    return Role(call, verdict(word), word, verdict(other), (f'{{"verdict": "{foreign}"}}', FAILED))


def writes(call, other=NOTHING, good=TEXT):
    """A role that writes a text."""
    return Role(call, good, "" if good == NOTHING else good, other, (GERMAN, GERMAN))


IN_CHINESE, IN_GERMAN = (letter_in_chinese("A"), "A"), ('{"answer_choice": "ja"}', FAILED)
ROLES = {
    "answer, choice": picks(role("answer", CHOICE, PASSAGES), IN_CHINESE),
    "answer, yes or no": picks(role("answer", YES_NO, PASSAGES), IN_GERMAN),
    "answer, open": tells(role("answer", OPEN, PASSAGES)),
    "think": writes(role(THINK, CHOICE, "glucose", PASSAGES)),
    "extract": writes(role(EXTRACT, CHOICE, PASSAGES)),
    "extract, nothing": writes(role(EXTRACT, CHOICE, PASSAGES), TEXT, NOTHING),
    "reduce, choice": picks(role(REDUCE, CHOICE, [TEXT]), IN_CHINESE),
    "reduce, open": tells(role(REDUCE, OPEN, [TEXT])),
    "usefulness": rules(role(GRADE_USEFULNESS, CHOICE, "A"), "useful", "not_useful", "nützlich"),
    "support": rules(role(GRADE_SUPPORT, CHOICE, PASSAGES, "A"), "supported", "unsupported", "支持"),
    "classify": rules(role(CLASSIFY, CHOICE), "single", "none", "einfach"),
    "rewrite": Role(
        role(REWRITE, CHOICE, "glucose", "A", [TEXT]),
        {"query": "insulin glucose"},
        "insulin glucose",
        {"query": "glucagon"},
        (text_in_german("query", "Insulin Blutzucker"), "Insulin Blutzucker"),
        "query",
    ),
    "judge": Role(
        role(JUDGE, OPEN, "Insulin.", "insulin"),
        marks(8),
        Judgement(8, 5, 9),
        marks(2),
        ('{"Korrektheit": 8, "Vollständigkeit": 5, "Relevanz": 9}', FAILED),
    ),
    "question": Role(
        question,
        asks(ASKED),
        (ASKED, "Insulin.", QUOTES),
        asks("What does insulin lower?"),
        (
            f"Voilà :\n{json.dumps(asks('Was senkt den Blutzucker?'))}",
            ("Was senkt den Blutzucker?", "Insulin.", QUOTES),
        ),
        "question",
    ),
}

SORRY = "I'm sorry, but I can't help with that."


def written(answer):
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


def tool(role):
    arguments = {"text": role.good} if role.plain else role.good
    return {"name": "reply", "arguments": arguments}


def called(*calls):
    functions = [{"name": call["name"], "arguments": json.dumps(call["arguments"])} for call in calls]
    made = [{"id": f"call_{i}", "type": "function", "function": f} for i, f in enumerate(functions)]
    return says(None, "tool_calls", tool_calls=made)


def twice(good, other):
    """An object in which every key stands twice, with another value."""
    both = [f"{json.dumps(key)}: {json.dumps(value)}" for one in (good, other) for key, value in one.items()]
    return "{" + ", ".join(both) + "}"


def half(role):
    text = written(role.good)
    return text[: text.rindex(" ") + 2]


# What goes over the wire, and what it says: a value, or FAILED. None where a form does not exist for a role.
FORMS = {
    "as asked": lambda r: (says(written(r.good)), r.value),
    "fenced": lambda r: (says(f"```{'' if r.plain else 'json'}\n{written(r.good)}\n```"), r.value),
    "fenced, unasked JSON": lambda r: (
        (says(f"```json\n{json.dumps({'text': r.good}, indent=1)}\n```"), r.value) if r.plain else None
    ),
    "preamble and remark": lambda r: surrounded(r),
    "refusal": lambda r: (says(SORRY), FAILED),
    "refusal, other words": lambda r: (says("As an AI language model, I cannot assist with this request."), FAILED),
    "refusal, German": lambda r: (says("Es tut mir leid, aber dabei kann ich nicht helfen."), FAILED),
    "refusal in the form": lambda r: (says(json.dumps({**r.good, r.words: SORRY})), FAILED) if r.words else None,
    "refusal in its field": lambda r: (refusal(), FAILED),
    "reasoning": lambda r: (says(f"<think>\n{written(r.other)}, or not\n</think>\n\n{written(r.good)}"), r.value),
    "reasoning, other tags": lambda r: (says(f"[THINK]{written(r.other)}[/THINK]{written(r.good)}"), r.value),
    "reasoning, channels": lambda r: (
        says(f"<|channel|>analysis<|message|>{written(r.other)}<|channel|>final<|message|>{written(r.good)}"),
        r.value,
    ),
    "reasoning between answers": lambda r: (
        None if r.plain else (says(f"{written(r.other)}\n<think>No.</think>\n{written(r.good)}"), FAILED)
    ),
    "reasoning, opened by the server": lambda r: (says(f"{written(r.other)}?\n</think>\n{written(r.good)}"), r.value),
    "reasoning, unclosed": lambda r: (says(f"<think>\nPerhaps {written(r.good)}"), FAILED),
    "reasoning only": lambda r: (says(f"<think>{written(r.good)}</think>\n"), FAILED),
    "reasoning, cut off": lambda r: (says(f"<think>\n{written(r.good)} but", "length"), FAILED),
    "tool call as text": lambda r: (says(json.dumps(tool(r))), FAILED if r.plain else r.value),
    "tool call in tags": lambda r: (
        says(f"<tool_call>\n{json.dumps(tool(r))}\n</tool_call>"),
        FAILED if r.plain else r.value,
    ),
    "tool call": lambda r: (called(tool(r)), FAILED if r.plain else r.value),
    "tool calls that contradict": lambda r: (
        None if r.plain else (called(tool(r), {"name": "reply", "arguments": r.other}), FAILED)
    ),
    "another language": lambda r: (says(r.foreign[0]), r.foreign[1]),
    "cut off": lambda r: (says(half(r), "length"), FAILED),
    "cut off, not said so": lambda r: None if r.plain else (says(written(r.good)[:-2]), FAILED),
    "cut off within, a draft inside": lambda r: (
        None if r.plain else (says(f'{{"draft": {written(r.other)}, {written(r.good)[1:-2]}', "length"), FAILED)
    ),
    "cut off after it": lambda r: None if r.plain else (says(f"{written(r.good)}\n\nPlease let me", "length"), r.value),
    "empty": lambda r: (says(""), FAILED),
    "blank": lambda r: (says("```json\n```"), FAILED),
    "empty object": lambda r: None if r.plain else (says("{}"), FAILED),
    "another key": lambda r: None if r.plain else (says(json.dumps({"response": "A useful insulin"})), FAILED),
    "the same twice": lambda r: None if r.plain else (says(f"{written(r.good)}\n{written(r.good)}"), r.value),
    "several that contradict": lambda r: contradicting(r),
    "contradicting within": lambda r: None if r.plain else (says(twice(r.good, r.other)), FAILED),
}


def surrounded(role):
    text = f"Sure! Here is the result:\n\n{written(role.good)}\n\nLet me know if I can do more."
    if not role.plain:
        return says(text), role.value
    # A text says all that it says, except that nothing relevant and something cannot both be said.
    return says(text), FAILED if role.good == NOTHING else text


def contradicting(role):
    text = f"{written(role.good)}\n\nOn second thoughts:\n{written(role.other)}"
    return says(text), text if role is ROLES["think"] else FAILED


CASES = [
    pytest.param(role, *case, id=f"{name}: {form}")
    for name, role in ROLES.items()
    for form, make in FORMS.items()
    if (case := make(role)) is not None
]


@pytest.fixture(scope="module")
def server():
    with pytest.MonkeyPatch.context() as patch, ChatServer() as running:
        patch.setenv("OPENAI_BASE_URL", running.url)
        patch.setenv("OPENAI_API_KEY", "sk-loopback")
        running.strict = True
        yield running


@pytest.fixture(scope="module")
def llm(server):
    """Without a cache: equal requests are sent again."""
    return OpenAIModel(LlmSettings(model="loopback-1", timeout=30))


@pytest.mark.parametrize(("role", "behaviour", "expected"), CASES)
def test_every_role_reads_what_a_reply_says_or_counts_a_failure(server, llm, role, behaviour, expected):
    server.unscript()
    server.script([behaviour])
    value, failure = role.call(llm)
    if expected != FAILED:
        assert (value, failure) == (expected, "")
        return
    assert value is None
    text = json.loads(behaviour([]).body)["choices"][0]["message"]["content"]
    # The record has the beginning of the reply, by which a person can see what went wrong.
    assert failure
    assert not (text or "").strip() or shown(text)[1:15] in failure


@pytest.mark.parametrize(
    "thought",
    [
        "I cannot find a dose in the documents; they only name the hormone.",
        "I can't help but notice that insulin is named twice.",
        "Unfortunately, the documents do not say which hormone it is.",
        'The API takes calls such as {"name": "insulin", "arguments": {}}, which lower glucose.',
        "Models write <think> before their thoughts; insulin lowers glucose.",
        "Insulin: ```\nglucose -= 1\n```",
    ],
)
def test_a_thought_is_no_refusal_and_what_it_quotes_is_no_reply(thought):
    assert complete_text(thought) == thought


@pytest.mark.parametrize(
    "unit", ["<think>", "</think>", "{", '{"', "{}", '{"a":', "```\n", " ", "\n", "!", "sorry ", "[", "A. "]
)
def test_a_long_reply_is_read_in_a_moment_whatever_it_repeats(unit):
    text = (unit * MAX_CHARS)[:MAX_CHARS]
    started = time.perf_counter()
    for read in (
        complete_text,
        text_answer,
        extraction,
        lambda text: choice(text, OPTIONS),
        lambda text: only(text, "verdict"),
    ):
        with contextlib.suppress(Unparsable):
            read(text)
    assert time.perf_counter() - started < 5


# Structured output


def client(cache=None, **values):
    return OpenAIModel(LlmSettings(model="loopback-1", timeout=30, **values), 0, cache)


@pytest.fixture
def fresh(monkeypatch):
    with ChatServer(lambda messages: '{"verdict": "useful"}') as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
        running.strict = True
        yield running


USEFUL = ROLES["usefulness"].call
REJECTIONS = {
    "OpenAI": refused_parameter(
        None,
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model. Learn more.",
        None,
    ),
    "its field": refused_parameter("response_format.json_schema", "This type is unavailable now", "invalid_value"),
    "its schema": refused_parameter(None, "json_schema: grammar error: unimplemented keys", None),
    "FastAPI": extra_input("response_format"),
}


@pytest.mark.parametrize("name", ROLES)
def test_every_role_that_is_asked_for_an_object_sends_its_schema(server, llm, name):
    role = ROLES[name]
    server.unscript()
    server.script([says(written(role.good))])
    role.call(llm)
    sent = server.calls[-1].body
    assert faults(sent) == []
    if role.plain:
        assert "response_format" not in sent
        return
    schema = sent["response_format"]["json_schema"]["schema"]
    # What a model answers that keeps to the schema is what the role reads; an answer may name what it rests on, too.
    named = [CITED] if name.startswith("answer") else []
    assert list(schema["properties"]) == [*role.good, *named]
    for key, value in role.good.items():
        assert value in schema["properties"][key].get("enum", [value])


@pytest.mark.parametrize("case", REJECTIONS)
def test_an_endpoint_without_structured_output_is_asked_in_words_and_the_log_says_so_once(fresh, caplog, case):
    fresh.refuses = {"response_format": REJECTIONS[case]}
    llm = client()
    for _ in range(3):
        assert USEFUL(llm) == ("useful", "")
    assert ["response_format" in call.body for call in fresh.calls] == [True, False, False, False]
    (told,) = [record.getMessage() for record in caplog.records if "structured" in record.getMessage()]
    assert fresh.url in told and "asked in words from now on" in told
    assert "response_format is not sent: the model rejects it" in llm.parameters.describe()


def test_what_was_rejected_is_remembered_by_later_runs(fresh, tmp_path):
    fresh.refuses = {"response_format": REJECTIONS["OpenAI"]}
    USEFUL(client(tmp_path))
    ROLES["support"].call(client(tmp_path))
    assert ["response_format" in call.body for call in fresh.calls] == [True, False, False]


def test_with_structured_on_a_rejection_is_an_error(fresh):
    fresh.refuses = {"response_format": REJECTIONS["OpenAI"]}
    with pytest.raises(MogError, match=r"llm.structured: expected an endpoint that accepts .*set it to auto"):
        USEFUL(client(structured="on"))


def test_with_structured_off_it_is_not_sent(fresh):
    assert USEFUL(client(structured="off")) == ("useful", "")
    assert "response_format" not in fresh.calls[0].body


def test_other_rejections_do_not_end_structured_output(fresh):
    too_long = refused_parameter(
        None, "maximum context length is 9, response_format included", "context_length_exceeded"
    )
    fresh.script([lambda messages: too_long])
    llm = client()
    assert USEFUL(llm)[0] is None
    assert USEFUL(llm) == ("useful", "")
    assert "response_format" in fresh.calls[-1].body


def test_an_answer_with_a_form_is_another_than_one_without(fresh, tmp_path):
    for structured in ("off", "auto", "on", "off"):
        USEFUL(client(tmp_path, structured=structured))
    assert ["response_format" in call.body for call in fresh.calls] == [False, True]


def test_yaml_writes_the_switch_as_a_truth_value():
    assert [LlmSettings(structured=value).structured for value in (True, False)] == ["on", "off"]
    with pytest.raises(ValueError, match="structured"):
        LlmSettings(structured=1)


def test_tool_calls_of_any_shape_are_no_reason_to_ask_again(server, llm):
    server.unscript()
    for calls in ("x", [1], [{"id": "1"}], {}):
        server.script([says('{"verdict": "useful"}', tool_calls=calls), says(None, "tool_calls", tool_calls=calls)])
        assert USEFUL(llm) == ("useful", "")
        assert "without text" in USEFUL(llm)[1]


def refused(message, status=400, **fields):
    return Reply(
        json.dumps({"error": {"message": message, "type": "invalid_request_error", **fields}}).encode(), status
    )


NO_SYSTEM = [
    refused("System role not supported"),
    refused("Developer instruction is not enabled for models/gemma-3-27b-it"),
    refused("Unsupported value: 'messages[0].role' does not support 'system'.", param="messages[0].role", code="x"),
    refused("Conversation roles must alternate user/assistant/user/assistant/..."),
    refused("Jinja Exception: System role not supported", 500),
    Reply(
        json.dumps({"detail": [{"loc": ["body", "messages", 0, "role"], "msg": "Input should be 'user'"}]}).encode(),
        422,
    ),
]


@pytest.mark.parametrize("reply", NO_SYSTEM)
def test_a_model_without_a_system_role_gets_instructions_before_the_question_and_the_log_says_so(
    fresh, caplog, tmp_path, reply
):
    fresh.strict = False
    asked = {"system": "You answer.", "user": "Why?"}
    messages = [{"role": role, "content": text} for role, text in asked.items()]
    fresh.script([lambda messages: reply])
    model = client(tmp_path)
    assert model.complete(messages).text and model.complete(messages).cached
    assert [call.body["messages"] for call in fresh.calls[1:]] == [[{"role": "user", "content": "You answer.\n\nWhy?"}]]
    assert "rejects the system role" in caplog.text and "are sent before the question from now on" in caplog.text
    assert client(tmp_path).complete(messages).cached and len(fresh.calls) == 2


NO_GRAMMAR = [
    refused("Failed to parse grammar"),
    refused("Failed to parse grammar", 500),
    refused("failed to load model vocabulary required for format", 500),
    refused("The provided JSON schema contains features not supported by xgrammar."),
    refused("guided decoding backend outlines is not available"),
]


@pytest.mark.parametrize("reply", NO_GRAMMAR)
def test_a_server_that_cannot_read_the_form_is_asked_in_words_and_the_log_says_so(fresh, caplog, reply):
    fresh.strict, fresh.refuses["response_format"] = False, reply
    model = client()
    assert model.complete([{"role": "user", "content": "Why?"}], AnswerForm("a", {"answer": {"type": "string"}})).text
    assert "rejects response_format" in caplog.text and [len(fresh.calls), model.tally.retries] == [2, 0]


@pytest.mark.parametrize("name", ["seed", "max_tokens", "temperature"])
def test_a_parameter_is_named_in_an_error_whose_message_is_an_object(fresh, name):
    detail = [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted", "input": 0}]
    body = {"object": "error", "message": {"detail": detail}, "type": "invalid_request_error", "param": None}
    fresh.strict, fresh.refuses[name] = False, Reply(json.dumps(body).encode(), 422)
    assert client().complete([{"role": "user", "content": "Why?"}]).text
    assert name not in fresh.calls[-1].body and len(fresh.calls) == 2
    fresh.script([lambda messages: Reply(json.dumps({**body, "message": {"detail": "the sky fell"}}).encode(), 422)])
    with pytest.raises(RequestFailed, match="the sky fell"):
        client().complete([{"role": "user", "content": "Why?"}])


PARTS = [
    [{"type": "text", "text": "the "}, {"type": "text", "text": "answer"}],
    [{"type": "thinking", "thinking": [{"type": "text", "text": "a draft"}]}, {"type": "text", "text": "the answer"}],
    [{"type": "reasoning", "text": "a draft"}, {"type": "output_text", "text": "the answer"}],
    ["the ", "answer"],
    [{"text": "the answer"}],
]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("parts", PARTS)
def test_an_answer_in_parts_is_read_and_paid_for_once(fresh, parts, streamed):
    fresh.strict = False
    fresh.script([lambda messages: completion(messages, "two words", content=parts)])
    pieces = []
    heard = {"heard": pieces.append} if streamed else {}
    assert client().complete([{"role": "user", "content": "Why?"}], **heard).text == "the answer"
    assert "".join(pieces) == "the answer" * streamed and len(fresh.calls) == 1
