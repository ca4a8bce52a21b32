"""Who may see which documents: what they may not see is at no door, whatever is asked and however it is ranked."""

import asyncio
import json
import random
import subprocess
import time
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
import yaml
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from rerank_server import RerankServer
from served import Served, command, environment
from shared import SAMPLES, examples
from web_server import WebServer

import mog_assets
from mog_assets.plugins.permissions.rules import hashed
from mog_assets.plugins.pushing.pushed import push
from mog_assets.resources.errors import ConfigError, MogError, NotAllowed, NotFound
from mog_assets.serve import http
from mog_assets.serve.limits import ServerOptions

# Documents are pushed, questions are noted, and methods of papers are asked.
pytestmark = pytest.mark.whole

GROUPS = ["staff", "hr", "lab"]
PEOPLE = {"ann": ["staff"], "bob": ["hr", "lab"], "eve": []}
KEYS = {name: f"{name}-has-a-key-of-many-letters" for name in PEOPLE}
# Of each of three corpora.
DOCUMENTS = 10


def mark(corpus, number):
    """A word that stands in one document only."""
    return f"q{'xyz'[corpus]}{chr(97 + number // 10)}{chr(97 + number % 10)}wk"


def sampled():
    """Rows of documents with their marks in title, text, metadata and their keys; and questions about them."""
    rows = [json.loads(line) for line in (SAMPLES / "garden.jsonl").read_text(encoding="utf-8").splitlines()]
    corpora = [rows[number::3][:DOCUMENTS] for number in range(3)]
    place, marks = {}, {}
    for corpus, documents in enumerate(corpora):
        for number, row in enumerate(documents):
            word = mark(corpus, number)
            place[row["id"]] = f"c{corpus}", f"{row['id']}-{word}"
            marks[f"c{corpus}", f"{row['id']}-{word}"] = word
            readers = [random.Random(word).choice(GROUPS), "user:eve"] if number % 3 == 0 else []
            row["metadata"] = {"readers": readers, f"key{word}": word, "shelf": number}
            row |= {"id": f"{row['id']}-{word}", "title": f"{row['title']} {word}", "text": f"{row['text']} {word}."}
    questions = []
    for line in (SAMPLES / "questions.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        evidence = [e for e in row["evidence"] if e["corpus"] == "garden" and e["doc"] in place]
        if evidence and len(evidence) == len(row["evidence"]):
            corpora_of = [place[e["doc"]] for e in evidence]
            row["evidence"] = [e | {"corpus": c, "doc": d} for e, (c, d) in zip(evidence, corpora_of, strict=True)]
            questions.append(row)
    return corpora, questions, marks


@dataclass(repr=False)
class Made:
    """The project: its settings, open, with its reranker, and the marks and rows of its documents."""

    of: Any
    opened: Any
    reranker: RerankServer
    marks: dict[tuple[str, str], str]
    rows: list[dict[str, Any]]


@pytest.fixture(scope="module")
def project(tmp_path_factory, make_project, materialise_project):
    """A project of every ranking, a reranker with it, and what it asks of the reranker."""
    folder = tmp_path_factory.mktemp("permissions")
    corpora, questions, marks = sampled()
    for number, rows in enumerate(corpora[:2]):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"c{number}.jsonl").write_text(text, encoding="utf-8")
    assert push(folder / "c2.sqlite", corpora[2]) == DOCUMENTS
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions), encoding="utf-8")
    (folder / "access.yaml").write_text("rules: []\n", encoding="utf-8")
    names = [f"c{number}" for number in range(3)]
    with RerankServer() as reranker, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RERANKER_API_KEY", "k")
        made = make_project(
            folder,
            {
                "corpora": {**{c: {"path": f"{c}.jsonl"} for c in names[:2]}, "c2": {"source": "pushed://c2.sqlite"}},
                "question_sets": {"q": {"path": "questions.jsonl", "corpora": names, "train": ["train"]}},
                "permissions": "access.yaml",
                "methods": ["default", "papers"],
                "topics": {"min_topic_size": 5},
                "reranker": {"endpoint": {"form": "jina", "url": reranker.url}, "model": "m"},
                "answering": {"reader": "extractive", "methods": ["one-step", "briefcontext", "mogg-paper → at-rag"]},
                "use": {"log": True},
            },
        )
        materialise_project(made.settings)
        rows = [{"corpus": name, **row} for name, some in zip(names, corpora, strict=True) for row in some]
        with mog_assets.open(made.settings, refresh=None) as opened:
            yield Made(made, opened, reranker, marks, rows)


def write(project, rules, people=PEOPLE, **more):
    principals = {name: {"groups": groups, "key": hashed(KEYS[name])} for name, groups in people.items()}
    text = yaml.safe_dump({"principals": principals, "rules": rules, **more})
    temporary = project.of.folder / "access.new"
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(project.of.folder / "access.yaml")


def may_see(project, rules, name, people=PEOPLE):
    """The documents that a principal may see, as the documentation says it."""
    own = {*people[name], "everyone", f"user:{name}"}
    seen = set()
    for row in project.rows:
        for rule in rules:
            allowing = set(rule.get("allow", ())) | set(row["metadata"]["readers"] if "allow_by" in rule else ())
            where = rule.get("where", {})
            meets = where.get("corpus", row["corpus"]) == row["corpus"]
            meets &= row["metadata"]["shelf"] >= where.get("shelf", {"gte": 0})["gte"]
            meets &= "id" not in where or row["id"] in where["id"]
            if meets and own & allowing:
                seen.add((row["corpus"], row["id"]))
    return seen


names = st.sampled_from([*GROUPS, "everyone", *(f"user:{name}" for name in PEOPLE)])


@st.composite
def rule(draw):
    ids = [row["id"] for rows in sampled()[0] for row in rows]
    where = draw(
        st.sampled_from([{}, {"corpus": "c0"}, {"corpus": "c2"}, {"shelf": {"gte": 7}}, {"shelf": {"gte": 99}}])
        | st.lists(st.sampled_from(ids), min_size=1, max_size=6).map(lambda some: {"id": some})
    )
    whom = draw(st.just({"allow_by": "readers"}) | st.lists(names, min_size=1, max_size=2).map(lambda n: {"allow": n}))
    return {**whom, "where": where}


def shown(outputs, asked):
    """What was shown, without the questions that were asked."""
    text = json.dumps(outputs, ensure_ascii=False, default=str).lower()
    for question in asked:
        # A message of a conversation loses the blanks around it.
        for said in (question, question.strip()):
            text = text.replace(json.dumps(said, ensure_ascii=False)[1:-1].lower(), "")
        # Said back as it was typed.
        text = text.replace(f"has “{question.lower()[1:-1]}” as it stands", "")
    return text


def tried(function, *arguments, **options):
    """What a call gives, or what its error says."""
    try:
        result = function(*arguments, **options)
        return result.to_json() if hasattr(result, "to_json") else result
    except MogError as error:
        return str(error)


def everything(project, name, questions, forbidden):
    """What one principal gets at the doors of Python and HTTP."""
    seen = project.opened.as_principal(name)
    outputs = [[info.to_json() for info in seen.corpora], seen.names, seen.methods, seen.trouble]
    for question in questions:
        for method in seen.methods:
            explain = method in ("fused", "mix", "tuned", "auto")
            outputs.append(tried(seen.search, question, method=method, k=30, explain=explain))
        within = tried(seen.search, question, method="fixed-2+topics")
        assert isinstance(within, str) or within["topic"] is None
        outputs.append(within)
        for way in seen.ways:
            events = []
            ask = {"method": way, "on_event": lambda *event, to=events: to.append(event)}
            outputs += [tried(seen.ask, question, **ask), events]
    outputs.append(tried(seen.search_many, questions, k=30) and None)
    for corpus, id in forbidden:
        word = project.marks[corpus, id]
        with pytest.raises(NotFound) as refused:
            seen.document(corpus, id)
        # As if it were not there.
        with pytest.raises(NotFound) as absent:
            seen.document(corpus, id[:-1] + "#")
        assert str(refused.value).replace(id, "") == str(absent.value).replace(id[:-1] + "#", "")
        for where in ({f"key{word}": word}, {"readers": "hr"}, {"topic": 1}, {"topic.label": "beans"}, {"id": id}):
            said = json.dumps(tried(seen.search, "beans", where=where))
            # Neither is a name that is kept from view known, nor one that no document has.
            assert "expected a name that documents have" in said or set(where) <= {"readers", "id"}
            outputs.append(said.replace(f"key{word}", ""))
    client = by_http(project, name)
    outputs += [client.get("/v1/corpora").json(), client.get("/v1/models").json()]
    for question in questions[:2]:
        outputs.append(client.post("/v1/search", json={"question": question, "k": 30, "explain": True}).json())
        outputs.append(client.post("/v1/search", json={"question": question, "k": 3, "sentences": True}).json())
        outputs.append(client.post("/v1/ask", json={"question": question}).json())
        outputs.append(client.post("/v1/ask", json={"question": question, "stream": True}).text)
        dify = {"knowledge_id": "all", "query": question, "retrieval_setting": {"top_k": 30, "score_threshold": 0}}
        outputs.append(client.post("/retrieval", json=dify).json())
        outputs.append(client.post("/v1/vector_stores/all/search", json={"query": question}).json())
        turns = [{"role": "user", "content": text} for text in (*questions[:2], question)]
        outputs.append(client.post("/v1/chat/completions", json={"messages": turns}).json())
        outputs.append(client.post("/v1/chat/completions", json={"messages": turns, "stream": True}).text)
    for corpus, id in list(forbidden)[:3]:
        used = {"question": "q", "passage": {"corpus": corpus, "document": id, "start": 0, "end": 9}}
        assert client.get(f"/v1/documents/{corpus}/{id}").status_code == 404
        assert client.get(f"/v1/source/{corpus}/{id}").status_code == 404
        assert client.post("/v1/used", json=used).status_code == 404
        assert client.post("/v1/search", json={"question": "q", "corpora": ["c9"]}).status_code == 404
    return outputs


@settings(max_examples=examples(2), deadline=None)
@given(rules=st.lists(rule(), max_size=4), name=st.sampled_from(sorted(PEOPLE)), seed=st.integers(0, 99))
def test_nothing_that_may_not_be_seen_is_at_any_door(project, rules, name, seed):
    write(project, rules)
    allowed = may_see(project, rules, name)
    forbidden = sorted(set(project.marks) - allowed)
    # Of others: what they say, their very words, and words that are nearly theirs.
    texts = {(row["corpus"], row["id"]): row for row in project.rows}
    some = random.Random(seed).sample(forbidden, min(2, len(forbidden)))
    questions = ["How deep is garlic planted, and when are beans sown?"]
    questions += [f"{texts[place]['title']} {texts[place]['text'][:80]}" for place in some]
    questions += [f'"{project.marks[place]}"' for place in some[:1]]
    questions += [f"where is {project.marks[place][:-1]}h" for place in some[:1]]
    del project.reranker.bodies[:]
    outputs = everything(project, name, questions, forbidden)
    text = shown(outputs, questions)
    read = shown(project.reranker.bodies, questions)
    for place in forbidden:
        assert project.marks[place] not in text, place
        assert project.marks[place] not in read, place
    seen = project.opened.as_principal(name)
    counts = {corpus: sum(place[0] == corpus for place in allowed) for corpus in ("c0", "c1", "c2")}
    assert {info.name: info.documents for info in seen.corpora} == {c: n for c, n in counts.items() if n}
    assert seen.names == [c for c, n in counts.items() if n]
    for place in allowed:
        document = seen.document(*place)
        assert project.marks[place] in document.text
        assert ("readers" in document.metadata) == all("allow_by" not in rule for rule in rules)
    if allowed:
        results = seen.search("How deep is garlic planted?", k=30, method="fused")
        assert results.passages and {(p.corpus, p.document) for p in results.passages} <= allowed


# Who asks


def one(name, *groups):
    return {"allow": [f"user:{name}", *groups], "where": {"corpus": "c0"}}


QUESTION = "How deep is garlic planted?"


def test_what_is_taken_away_is_gone_at_the_next_question_and_what_is_given_is_there(project):
    write(project, [{"allow": ["everyone"]}])
    seen = project.opened.as_principal("ann")
    assert len(seen.names) == 3
    for _ in range(20):
        # Of the same length, within one tick of the clock of files.
        write(project, [one("bob")])
        assert seen.names == [] and seen.search(QUESTION).passages == []
        write(project, [one("ann")])
        assert seen.names == ["c0"] and {p.corpus for p in seen.search(QUESTION).passages} == {"c0"}


@pytest.mark.parametrize(
    "text",
    [
        "rules: [{allow: [everyone], wher: {}}]",
        "rules: [{allow: [everyone], where: {year: {above: 3}}}]",
        "rules: [{allow: [everyone], allow_by: readers}]",
        "rules: [{where: {corpus: c0}}]",
        "rules: [{allow: [everyone], where: {topic: 1}}]",
        "rules: [{allow: ['*']}]",
        "principals: {ann: {groups: ['user:bob']}}",
        "principals: {ann: {key: secret}}",
        "principals: {'*': {}}",
        f"principals: {{ann: {{key: '{hashed('k')}'}}, bob: {{key: '{hashed('k')}'}}}}",
        "jwt: {issuer: i, audience: a, keys: 'http://example.org/keys'}",
        "jwt: {issuer: i, audience: a, keys: keys.json, algorithms: [HS256]}",
        "jwt: {issuer: i, audience: a, keys: none.json}",
        "rules: [",
        "",
        None,
    ],
)
def test_with_rules_that_cannot_be_read_nothing_is_shown_and_nothing_is_said_of_them(project, text):
    write(project, [{"allow": ["everyone"]}])
    path = project.of.folder / "access.yaml"
    assert project.opened.as_principal("ann").search(QUESTION).passages
    seen = project.opened.as_principal("ann")
    client = by_http(project, "ann")
    path.unlink() if text is None else path.write_text(text, encoding="utf-8")
    for call in (
        lambda: seen.search(QUESTION),
        lambda: seen.corpora,
        lambda: seen.document(*next(iter(project.marks))),
    ):
        with pytest.raises(NotAllowed, match="permissions: expected rules"):
            call()
    answer = client.post("/v1/search", json={"question": QUESTION})
    assert answer.status_code == 503 and "the log of the server says more" in answer.json()["detail"]
    assert "access" not in answer.text and "secret" not in answer.text
    assert client.get("/healthz").status_code == 200
    # Who may read the file may read the documents.
    assert project.opened.as_principal("*").search(QUESTION).passages


def test_who_does_not_say_who_asks_gets_nothing(project):
    write(project, [{"allow": ["everyone"]}])
    for call in (lambda p: p.search(QUESTION), lambda p: p.ask(QUESTION), lambda p: p.names, lambda p: p.corpora):
        with pytest.raises(NotAllowed, match="as_principal"):
            call(project.opened)
    # A route that forgot to ask who calls would show nothing either.
    client = TestClient(http.app(project.opened, ServerOptions()), "http://localhost")
    client.app.state.serving.project_for = lambda _: project.opened
    client.headers["Authorization"] = f"Bearer {KEYS['ann']}"
    assert client.post("/v1/search", json={"question": QUESTION}).status_code == 503
    for key in (
        "",
        "Bearer",
        "Bearer wrong",
        "Bearer *",
        "Bearer ann",
        f"Basic {KEYS['ann']}",
        f"Bearer {KEYS['ann']}x",
    ):
        client = by_http(project, None)
        answer = client.post("/v1/search", json={"question": QUESTION}, headers={"Authorization": key})
        assert answer.status_code == 401 and answer.headers["www-authenticate"].startswith("Bearer")
    # Of the whole project, so for who runs it.
    assert by_http(project, "ann").get("/metrics").status_code == 401


def test_what_goes_wrong_is_told_without_the_names_of_what_is_not_seen(project, monkeypatch):
    write(project, [one("ann")])

    def broken(*_, **__):
        raise MogError("embeddings/level_1 of c2: damaged")

    monkeypatch.setattr(mog_assets.search.retrieval.Retrieval, "passages", broken)
    with pytest.raises(MogError, match="this cannot be answered now; the log says why"):
        project.opened.as_principal("ann").search(QUESTION)
    answer = by_http(project, "ann").post("/v1/search", json={"question": QUESTION})
    assert answer.status_code == 500 and "c2" not in answer.text
    with pytest.raises(MogError, match="of c2: damaged"):
        project.opened.as_principal("*").search(QUESTION)


@pytest.mark.parametrize("name", ["", "*", "a\nb", "x" * 501, 7])
def test_names_that_nobody_may_have_are_refused(project, name):
    write(project, [])
    with pytest.raises(ConfigError, match="principal: expected"):
        project.opened.as_principal("ann" if name == "*" else name, [name] if name == "*" else [])
    with pytest.raises(ConfigError, match="user:"):
        project.opened.as_principal("ann", ["user:bob"])


def test_the_owner_sees_what_an_open_project_shows(project):
    write(project, [])
    whole = project.opened.as_principal("*")
    assert {info.name: info.documents for info in whole.corpora} == dict.fromkeys(("c0", "c1", "c2"), DOCUMENTS)
    assert "readers" in whole.document(*next(iter(project.marks))).metadata
    assert "topic" in whole.corpora[0].fields


def by_http(project, name):
    app = http.app(project.opened, ServerOptions())
    client = TestClient(app, "http://localhost", raise_server_exceptions=False)
    if name is not None:
        client.headers["Authorization"] = f"Bearer {KEYS.get(name, name)}"
    return client


@pytest.fixture(scope="module")
def provider():
    """The keys of an identity provider, and what signs tokens with one of them."""
    import jwt
    from cryptography.hazmat.primitives.asymmetric import ec

    private = ec.generate_private_key(ec.SECP256R1())
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(private.public_key()))

    def token(key=private, algorithm="ES256", kid="one", **changes):
        claims = {"iss": "https://login", "aud": "mog", "sub": "eve", "groups": ["hr"], "exp": time.time() + 60}
        kept = {name: value for name, value in (claims | changes).items() if value is not None}
        return jwt.encode(kept, key, algorithm, {"kid": kid})

    return {"keys": [public | {"kid": "one", "use": "sig", "alg": "ES256"}]}, token


@pytest.mark.parametrize("served_keys", [False, True])
def test_tokens_of_an_identity_provider_say_who_asks_and_in_which_groups(project, provider, served_keys):
    keys, token = provider
    (project.of.folder / "keys.json").write_text(json.dumps(keys), encoding="utf-8")
    with WebServer({"/keys": json.dumps(keys)}) as site:
        place = f"{site.url}/keys" if served_keys else "keys.json"
        rules = [{"allow": ["hr"], "where": {"corpus": "c1"}}, one("eve")]
        content = {"rules": rules, "jwt": {"issuer": "https://login", "audience": "mog", "keys": place}}
        (project.of.folder / "access.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")

        def corpora(text):
            answer = by_http(project, text).get("/v1/corpora")
            assert answer.status_code in (200, 401)
            return [corpus["name"] for corpus in answer.json()["corpora"]] if answer.status_code == 200 else None

        assert corpora(token()) == ["c0", "c1"]
        assert corpora(token(sub="zoe")) == corpora(token(sub="zoe", groups="hr")) == ["c1"]
        assert corpora(token(groups=None)) == ["c0"]
        # A name is no group, and a group is no name.
        assert corpora(token(sub="hr", groups=["user:eve", 3, "*", None])) == []
        refused = [
            token(exp=time.time() - 60),
            token(exp=None),
            token(iss="https://other"),
            token(aud="other"),
            token(sub=None),
            token(sub="*"),
            token(sub=""),
            token(kid="two"),
            token("a secret of many letters, which is none", "HS256"),
            token(None, "none"),
            token()[:-3],
            "a.b.c",
        ]
        assert [corpora(text) for text in refused] == [None] * len(refused)
    assert not served_keys or 1 <= len(site.requests) <= 3, site.requests


def test_when_the_keys_of_a_provider_cannot_be_fetched_nothing_is_shown(project, provider):
    _, token = provider
    with WebServer({}) as site:
        content = {"jwt": {"issuer": "https://login", "audience": "mog", "keys": f"{site.url}/keys"}}
        (project.of.folder / "access.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        assert by_http(project, token()).get("/v1/corpora").status_code == 503


def test_only_those_whom_the_rules_name_push_documents(project):
    write(project, [{"allow": ["staff"]}], push=[{"allow": ["user:bob", "lab"], "corpora": ["c2", "c0"]}])
    place, body = "/v1/documents/c2/new", {"text": "Moles dig.", "metadata": {"readers": ["hr"]}}
    for name in ("ann", "eve"):
        client = by_http(project, name)
        for answer in (client.put(place, json=body), client.delete(place), client.post("/v1/documents/c2", json={})):
            assert answer.status_code == 404 and "(none)" in answer.json()["detail"]
    assert by_http(project, None).put(place, json=body).status_code == 401
    client = by_http(project, "bob")
    assert client.put(place, json=body).json() == {"corpus": "c2", "put": 1, "deleted": 0, "changed": 1}
    # The same again changes nothing, and a corpus that is a file takes nothing.
    assert client.put(place, json=body).json()["changed"] == 0
    assert client.put("/v1/documents/c0/new", json=body).status_code == 404
    refused = client.post("/v1/documents/c2", json={"put": [{"id": "a", "text": "A."}, {"id": "b", "text": " "}]})
    assert refused.status_code == 400 and "documents.1: empty document" in refused.json()["detail"]
    batch = client.post("/v1/documents/c2", json={"put": [{"id": "a", "text": "A."}], "delete": ["new", "none"]})
    assert batch.json() == {"corpus": "c2", "put": 1, "deleted": 2, "changed": 2}
    assert client.delete("/v1/documents/c2/a").json()["changed"] == 1
    assert client.put("/v1/documents/c2/" + "x" * 1500, json=body).status_code == 400
    # Taken away, it is gone with the next request.
    write(project, [{"allow": ["staff"]}])
    assert client.put(place, json=body).status_code == 404
    with pytest.raises(NotAllowed):
        project.opened.push("c2", [{"id": "a", "text": "A."}])
    assert project.opened.as_principal("*").push("c2", [], ["a"]) == 0


# Doors that are processes of their own


async def by_mcp(url, name, id):
    headers = {"Authorization": f"Bearer {KEYS[name]}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as client,
        Client(streamable_http_client(f"{url}/mcp", http_client=client)) as agent,
    ):
        results = await agent.call_tool("search", {"query": QUESTION, "k": 50})
        document = await agent.call_tool("fetch", {"id": id})
        answer = await agent.call_tool("ask", {"question": QUESTION})
        pushed = await agent.call_tool("push", {"corpus": "c2", "delete": ["none"]})
        return [str(each.content) for each in (results, answer)], document.is_error, pushed.is_error


async def by_stdio(words):
    program, *arguments = command(*words)
    async with Client(StdioServerParameters(command=program, args=arguments, env=environment())) as agent:
        results = await agent.call_tool("search", {"query": QUESTION, "k": 50})
        return str(results.content), results.is_error


@pytest.mark.full
def test_agents_and_commands_get_what_each_may_see(project, tmp_path):
    write(
        project,
        [{"allow": ["user:ann"], "where": {"corpus": "c0"}}, {"allow": ["user:bob"], "where": {"corpus": "c1"}}],
        push=[{"allow": ["user:ann"], "corpora": ["c2"]}],
    )
    first = {corpus: next(id for c, id in project.marks if c == corpus) for corpus in ("c0", "c1")}
    served = Served(project.of.folder / "mog.yaml", tmp_path)
    try:
        for name, own, other in (("ann", "c0", "c1"), ("bob", "c1", "c0"), ("ann", "c0", "c1")):
            texts, failed, refused = asyncio.run(by_mcp(served.url, name, f"{own}/{first[own]}"))
            assert not failed and f"{own}/" in texts[0] and refused == (name != "ann")
            assert asyncio.run(by_mcp(served.url, name, f"{other}/{first[other]}"))[1]
            marks = [word for (corpus, _), word in project.marks.items() if corpus != own]
            assert not any(word in text for word in marks for text in texts)
    finally:
        served.end()
    config = ["--config", str(project.of.folder / "mog.yaml")]
    results, _ = asyncio.run(by_stdio(["mcp", "--as", "bob", *config]))
    assert "c1/" in results and "c0/" not in results

    def run(*words):
        return subprocess.run(
            [*command(*words), *config], capture_output=True, text=True, env=environment(), timeout=300
        )

    passages = json.loads(run("search", QUESTION, "--as", "ann", "--k", "30", "--json").stdout)
    assert {passage["corpus"] for passage in passages} == {"c0"}
    passages = json.loads(run("search", QUESTION, "--as", "*", "--k", "60", "--json").stdout)
    assert {passage["corpus"] for passage in passages} == {"c0", "c1", "c2"}
    nobody = run("search", QUESTION)
    assert nobody.returncode == 2 and "--as: expected who asks" in nobody.stderr
    table = json.loads(run("permissions", "--json").stdout)
    assert {row["principal"]: [row["c0"], row["c1"], row["c2"]] for row in table} == {
        "ann": [DOCUMENTS, 0, 0],
        "bob": [0, DOCUMENTS, 0],
        "eve": [0, 0, 0],
        "*": [DOCUMENTS] * 3,
    }
    key, digest = (line.split()[1] for line in run("permissions", "--new-key").stdout.splitlines())
    assert hashed(key) == digest and len(key) > 40
