"""Retrievers for LangChain, LlamaIndex and Haystack, with the packages themselves; no test lets them call home."""

import asyncio
import json
import os
import socket
import subprocess
import sys

import pytest
from documentation import blocks
from shared import ROOT

pytestmark = pytest.mark.full

# Read when the packages are imported.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
os.environ["LANGSMITH_TRACING"] = "false"

pytest.importorskip("langchain_core")
pytest.importorskip("llama_index.core")
pytest.importorskip("haystack")

from haystack import Pipeline  # noqa: E402
from haystack.components.builders import PromptBuilder  # noqa: E402
from langchain_tests.integration_tests import RetrieversIntegrationTests  # noqa: E402
from llama_index.core.schema import MetadataMode, NodeRelationship  # noqa: E402

import mog_assets  # noqa: E402
from mog_assets.plugins.frameworks import haystack, langchain, llama_index  # noqa: E402
from mog_assets.plugins.frameworks.retrievers import identity  # noqa: E402
from mog_assets.resources.errors import ConfigError  # noqa: E402
from mog_assets.serve.results import Passage, Span  # noqa: E402

QUESTION = "How deep should garlic cloves be planted?"
IN_SKY = {"corpus": "sky"}


@pytest.fixture(autouse=True)
def nobody_calls_home(monkeypatch):
    called, connect = [], socket.socket.connect

    def noted(self, address):
        if self.family != socket.AF_UNIX:
            called.append(address)
            raise OSError("no connections in this test")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", noted)
    yield
    assert called == []


@pytest.fixture(scope="module")
def project(sample_project):
    with mog_assets.open(sample_project.config, refresh=None) as opened:
        yield opened


@pytest.fixture(scope="module")
def found(project):
    return project.search(QUESTION, k=3).passages


# The suite has one asynchronous test and may not be changed.
@pytest.mark.asyncio
@pytest.mark.filterwarnings("ignore:.*is marked with '@pytest.mark.asyncio'")
class TestLangChainSuite(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def opened(self, project):
        self.project = project

    @property
    def retriever_constructor(self):
        return langchain.MogRetriever

    @property
    def retriever_constructor_params(self):
        return {"config": self.project}

    @property
    def retriever_query_example(self):
        return QUESTION


def test_langchain_documents_say_where_they_are_from(project, found):
    documents = langchain.MogRetriever(config=project, k=3).invoke(QUESTION)
    assert [d.page_content for d in documents] == [p.text for p in found]
    assert [d.metadata["score"] for d in documents] == [p.score for p in found]
    first, passage = documents[0], found[0]
    assert (first.metadata["corpus"], first.metadata["document"], first.metadata["title"]) == (
        "garden",
        "garlic",
        "Garlic",
    )
    assert first.metadata["spans"] == passage.to_json()["spans"]
    assert {"page", "headings", "source", "level", "metadata"} <= first.metadata.keys()
    assert first.id == identity(passage)
    json.dumps(first.metadata)


def test_langchain_options_for_one_call_replace_those_of_the_retriever(project):
    retriever = langchain.MogRetriever(config=project, k=3, where=IN_SKY, method="fixed-1")
    assert {d.metadata["corpus"] for d in retriever.invoke(QUESTION)} == {"sky"}
    (only,) = retriever.invoke(QUESTION, k=1, where={"corpus": "garden"})
    assert only.metadata["document"] == "garlic"
    assert [only] == asyncio.run(retriever.ainvoke(QUESTION, k=1, where={"corpus": "garden"}))
    with pytest.raises(ConfigError, match="k: expected an integer of at least 1"):
        retriever.invoke(QUESTION, k=0)
    retriever.where = None
    assert retriever.invoke(QUESTION)[0].metadata["corpus"] == "garden"


def test_langchain_answers_many_at_a_time(project):
    retriever = langchain.MogRetriever(config=project, k=2)
    questions = [QUESTION, "How is a planet found?"]
    alone = [retriever.invoke(question) for question in questions]
    assert retriever.batch(questions) == alone
    assert asyncio.run(retriever.abatch(questions)) == alone


def test_llama_index_nodes_have_scores_and_places(project, found):
    retriever = llama_index.MogRetriever(project, k=3)
    nodes = retriever.retrieve(QUESTION)
    assert [(n.score, n.text, n.node_id) for n in nodes] == [(p.score, p.text, identity(p)) for p in found]
    assert asyncio.run(retriever.aretrieve(QUESTION)) == nodes
    first = nodes[0].node
    assert (first.start_char_idx, first.end_char_idx) == (found[0].start, found[0].end)
    assert first.relationships[NodeRelationship.SOURCE].node_id == "garden/garlic"
    assert first.metadata["spans"] == found[0].to_json()["spans"]
    # A model that reads it, or embeds it, is not told of offsets.
    assert first.get_content(MetadataMode.LLM) == f"title: Garlic\n\n{found[0].text}"


def test_llama_index_takes_the_options(project):
    nodes = llama_index.MogRetriever(project, budget=600, corpora=["sky"], method="fixed-1").retrieve(QUESTION)
    expected = project.search(QUESTION, budget=600, corpora=["sky"], method="fixed-1").passages
    assert [node.node_id for node in nodes] == [identity(passage) for passage in expected]
    assert {node.metadata["corpus"] for node in nodes} == {"sky"}


def test_haystack_runs_in_a_pipeline_that_was_saved(sample_project, project):
    pipeline, where = Pipeline(), {"corpus": {"in": ["garden", "sky"]}}
    (passage,) = project.search(QUESTION, k=1, where=where).passages
    retriever = haystack.MogRetriever(sample_project.config, k=2, where=where)
    pipeline.add_component("retriever", retriever)
    template = "{% for document in documents %}{{ document.content }}\n{% endfor %}"
    pipeline.add_component("prompt", PromptBuilder(template=template, required_variables=["documents"]))
    pipeline.connect("retriever.documents", "prompt.documents")
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=[haystack.__name__])
    assert again.to_dict() == pipeline.to_dict()
    told = again.run({"retriever": {"query": QUESTION, "k": 1}}, include_outputs_from={"retriever"})
    (document,) = told["retriever"]["documents"]
    assert (document.content, document.score, document.id) == (passage.text, passage.score, identity(passage))
    assert told["prompt"]["prompt"].strip() == passage.text.strip()
    again.get_component("retriever").project.close()


def test_haystack_answers_without_a_pipeline_and_while_others_work(project):
    retriever = haystack.MogRetriever(project, budget=900, method="fixed-1")
    told = retriever.run(QUESTION, where=IN_SKY)
    assert told["documents"] and {d.meta["corpus"] for d in told["documents"]} == {"sky"}
    assert asyncio.run(retriever.run_async(QUESTION, where=IN_SKY)) == told


def test_a_retriever_of_an_open_project_is_not_saved(project):
    with pytest.raises(ConfigError, match=r"expected the path of mog\.yaml .* got an open project"):
        haystack.MogRetriever(project).to_dict()


def test_an_id_stands_for_one_place():
    def made(*spans):
        return Passage("", "", "c", "d", tuple(Span(*s) for s in spans), None, (), None, {}, 0.0, 1)

    assert identity(made(("c", "d", 0, 5), ("c", "d", 9, 12))) == "c/d#0-5,9-12"
    odd = [("c", "d#0-5 c/e", 9, 12)], [("c", "d", 0, 5), ("c", "e", 9, 12)]
    assert len({identity(made(*spans)) for spans in odd}) == 2


@pytest.mark.parametrize("name", ["langchain", "llama_index", "haystack"])
def test_a_package_that_is_missing_is_named_with_its_extra(name):
    package = {"langchain": "langchain_core", "llama_index": "llama_index", "haystack": "haystack"}[name]
    code = f"import sys; sys.modules[{package!r}] = None; import mog_assets.plugins.frameworks.{name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ") and f"`pip install 'mog-assets[{name.replace('_', '-')}]'`" in last


def test_none_of_them_is_imported_before_it_is_used():
    code = "import sys, mog_assets; mog_assets.open; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "mog_assets.serve.project" in done.stdout.split()
    packages = {name.split(".")[0] for name in done.stdout.split()}
    assert not packages & {"langchain_core", "llama_index", "haystack", "posthog", "fastapi"}


CODE = blocks(ROOT / "docs" / "frameworks.md", "python")


@pytest.mark.parametrize("body", CODE, ids=range(len(CODE)))
def test_code_of_the_page_runs(body, sample_project, monkeypatch, capsys):
    monkeypatch.chdir(sample_project.folder)
    exec(compile(body, "docs/frameworks.md", "exec"), {})
    printed = capsys.readouterr().out
    shown = [line.partition("# ")[2] for line in body.splitlines() if line.startswith("print(") and "# " in line]
    assert shown and [line.strip() for line in printed.strip().splitlines()] == shown
