"""A client of a server on loopback, which answers "about" what it is asked."""

import pytest
from chat_server import ChatServer

from mog_assets.resources.chat import LlmSettings
from mog_assets.resources.llm import OpenAIModel

KEY = "sk-loopback-0123456789"


def ask(text):
    return [{"role": "system", "content": "Answer in a word."}, {"role": "user", "content": text}]


@pytest.fixture
def server(monkeypatch):
    with ChatServer(lambda messages: f"about {messages[-1]['content']}") as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield running


def client(cache=None, seed=0, **values):
    return OpenAIModel(LlmSettings(**{"max_tokens": 50, "timeout": 10, **values}), seed, cache)
