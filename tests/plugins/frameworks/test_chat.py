"""The chat door, by OpenAI's own client: conversations over the sample project, with and without a language model."""

import contextlib
import json
import re

import pytest
import yaml
from chat_server import ChatServer, says
from served import Served

from mog_assets.plugins.frameworks.chat import _written

openai = pytest.importorskip("openai")
pytestmark = pytest.mark.full
FIRST = "When should onions stop being watered?"
FOLLOW_UP = "For how many years does their white rot stay in the ground?"


@pytest.fixture(scope="module")
def served(sample_project, tmp_path_factory):
    started = Served(sample_project.neural, tmp_path_factory.mktemp("chat"), "--max-question", 500)
    yield started
    started.end()


def client_of(served):
    return openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0)


def said(*texts):
    """A conversation: questions and answers in turn."""
    return [{"role": "user" if n % 2 == 0 else "assistant", "content": text} for n, text in enumerate(texts)]


def streamed(client, messages, **more):
    """The text and the last chunk of a stream."""
    parts, last = [], None
    for chunk in client.chat.completions.create(model="mog", messages=messages, stream=True, **more):
        parts.append(chunk.choices[0].delta.content or "")
        last = chunk
    assert last.choices[0].finish_reason == "stop"
    return "".join(parts), last


def resolved(served, content, sources):
    """Checks that every [n] of an answer is the exact text of its places; returns these texts."""
    texts = []
    for source in sources:
        pieces = []
        for span in source["spans"]:
            whole = served.call(f"/v1/documents/{span['corpus']}/{span['document']}")[2]["text"]
            pieces.append(whole[span["start"] : span["end"]])
        assert pieces and all(pieces) and re.sub(r"\s", "", "".join(pieces)) == re.sub(r"\s", "", source["text"])
        assert len(pieces) > 1 or pieces == [source["text"]]
        assert source["url"].startswith(f"{served.url}/document?corpus={source['corpus']}&id=")
        if f"[{source['n']}]" in content:
            texts.append(source["text"])
            assert source["url"] in content
    assert [source["n"] for source in sources] == list(range(1, len(sources) + 1))
    return texts


def test_a_conversation_of_three_turns_is_answered_with_what_each_answer_rests_on(served):
    turns = [FIRST, FOLLOW_UP, "What is a monsoon?"]
    with client_of(served) as client:
        texts = []
        for question in turns:
            content, last = streamed(client, said(*texts, question))
            whole = client.chat.completions.create(model="mog", messages=said(*texts, question))
            assert whole.choices[0].message.content == content and whole.sources == last.sources
            cited = resolved(served, content, last.sources)
            # What the reader is not certain of is a search: passages, and no answer that rests on one.
            assert cited or content.startswith("No answer: nothing in the passages is certain enough"), content
            texts += [question, content]
            if question == FOLLOW_UP:
                assert last.question == f"{FOLLOW_UP} onions stop watered {FOLLOW_UP}"
                assert "fifteen years" in content and "White rot" in cited[0]
        # Another topic is asked about as it is.
        assert last.question == turns[-1] and "monsoon" in last.sources[0]["text"].lower()


def test_one_corpus_is_a_model_of_its_own(served):
    with client_of(served) as client:
        assert [model.id for model in client.models.list()] == ["mog", "mog/garden", "mog/workshop", "mog/sky"]
        answer = client.chat.completions.create(model="mog/sky", messages=said(FIRST))
        assert {source["corpus"] for source in answer.sources} == {"sky"}
        parts = [{"type": "text", "text": FIRST}, {"type": "image_url", "image_url": {"url": "data:,"}}]
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": parts}]
        answer = client.chat.completions.create(model="mog", messages=messages, temperature=0.3, max_tokens=50)
        assert answer.question == FIRST
        where = client.chat.completions.create(
            model="mog", messages=said(FIRST), extra_body={"where": {"title": "Leek"}}
        )
        assert {source["document"] for source in where.sources} == {"leek"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"model": "gpt-4"}, "model: expected mog, or mog/"),
        ({"model": "mog/nowhere"}, "model: expected mog, or mog/"),
        ({"n": 2}, "n: expected 1"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools: expected none"),
        ({"messages": said("A?", "B.")}, "as the last one"),
        ({"messages": said(" ")}, "as the last one"),
        ({"messages": said("x" * 501)}, "messages: expected at most 500 characters"),
        ({"extra_body": {"where": {"no_such_name": 1}}}, "no_such_name"),
    ],
)
def test_what_cannot_be_done_is_told_in_the_shape_of_the_client(served, body, message):
    with client_of(served) as client:
        for stream in (False, True):
            with pytest.raises(openai.APIError, match=message.replace("(", r"\(")):
                answer = client.chat.completions.create(
                    **{"model": "mog", "messages": said(FIRST), "stream": stream, **body}
                )
                list(answer)
                raise AssertionError(answer)


def test_no_text_of_a_document_makes_a_chat_program_fetch_something():
    spans = [{"corpus": "c", "document": "d", "start": 0, "end": 90}]
    image = "Wait ![x](http://evil.example/a.png) <img src=http://evil.example/b.png>."
    source = {
        "n": 1,
        "corpus": "c",
        "document": "d",
        "title": "T ![x](http://evil.example) <b>",
        "url": "u",
        "spans": spans,
    }
    place = {"corpus": "c", "document": "d", "answer_start": 0, "answer_end": 9, "sentence": image}
    for answer in (image, None):
        text = "".join(_written({"answer": answer, "cited": [1], "likeliest": place, "failure": ""}, [source]))
        assert r"Wait \![x](" in text and r"\<img" in text and "[1]" in text
        assert not re.search(r"(?<!\\)(?:<|!\[)", text)


def test_long_conversations_are_answered_and_pasted_texts_are_no_questions(served):
    pasted = "Leeks are alliums. " * 60
    texts = [text for n in range(20) for text in (f"What is plant {n}?", "It is a plant.")]
    with client_of(served) as client:
        answer = client.chat.completions.create(model="mog", messages=said(*texts, pasted, "Thanks.", FOLLOW_UP))
    assert answer.question == f"{FOLLOW_UP} plant 19 {FOLLOW_UP}"


@contextlib.contextmanager
def by_model(sample_project, folder, monkeypatch, answer):
    """The sample project, answered by a scripted model, and its endpoint."""
    values = yaml.safe_load(sample_project.config.read_text(encoding="utf-8"))
    values |= {"home": str(sample_project.home), "answering": {"reader": "openai"}, "llm": {"model": "m"}}
    config = sample_project.folder / "chatting.yaml"
    config.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    with ChatServer(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "loopback")
        started = Served(config, folder)
        try:
            yield started, server
        finally:
            started.end()


def test_a_language_model_writes_the_follow_up_and_the_answer(sample_project, tmp_path, monkeypatch):
    prompts = []

    def answer(messages):
        text = "\n".join(message["content"] for message in messages)
        prompts.append(text)
        if "[standalone" in text:
            return json.dumps({"query": "How many years does white rot of onions persist in soil?"})
        said = {"step_by_step_thinking": "The document says so.", "answer": "Fifteen years or more."}
        # A document that there is not is not cited, and none twice.
        return json.dumps({**said, "documents": [2, 1, 2, 99, "3", True, -1]})

    with by_model(sample_project, tmp_path, monkeypatch, answer) as (started, server), client_of(started) as client:
        content, last = streamed(client, said(FIRST, "When they swell.", FOLLOW_UP))
        assert last.question == "How many years does white rot of onions persist in soil?"
        # It comes while the model writes, and only what answers is asked for in pieces.
        asked = [("[answer" in call.body["messages"][0]["content"], call.body.get("stream")) for call in server.calls]
        assert set(asked) == {(True, True), (False, None)}
        assert content.startswith("Fifteen years or more. [2] [1]\n\n1. [")
        assert len(resolved(started, content, last.sources)) == 2
        assert len(content.splitlines()) == 4
        (written,) = [text for text in prompts if "[standalone" in text]
        assert all(part in written for part in (FIRST, "When they swell.", FOLLOW_UP))
        # One that gives no question is an error, and not an answer to something else.
        server.script([says("I cannot.")] * 9, of="[standalone")
        with pytest.raises(openai.APIError, match="could not be made a question that stands alone"):
            client.chat.completions.create(model="mog", messages=said(FIRST, "Then.", "And their leaves?"))


def test_what_a_model_writes_is_shown_while_it_is_written_and_makes_no_image(sample_project, tmp_path, monkeypatch):
    text = "See ![x](http://evil.example/a.png) and <b>! Fifteen years!"

    def answer(messages):
        return json.dumps({"step_by_step_thinking": "It says so.", "answer": text, "documents": [1]})

    with by_model(sample_project, tmp_path, monkeypatch, answer) as (started, server):
        with client_of(started) as client:
            content, last = streamed(client, said(FIRST))
            whole = client.chat.completions.create(model="mog", messages=said(FIRST))
            assert whole.choices[0].message.content == content
            assert content.startswith(r"See \![x](http://evil.example/a.png) and \<b>! Fifteen years! [1]")
            # What was begun and is no answer in the end is told as an error.
            server.script([says('{"step_by_step_thinking": "", "answer": "Ten years", "answer": "No"}')])
            with pytest.raises(openai.APIError, match="not the one that was begun"):
                streamed(client, said("Why are tomatoes red?"))
        events = started.call("/v1/ask", {"question": FOLLOW_UP, "stream": True})[2].decode()
        tokens = [json.loads(line[6:])["text"] for line in re.findall(r"^event: token\n(data: .*)$", events, re.M)]
        assert "".join(tokens) == text
