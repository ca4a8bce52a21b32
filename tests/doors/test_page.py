"""The search page and the page of a document, as a person uses them: `mog serve` in a real browser."""

import json
import re
import shutil
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest
from browser import watch_errors
from pdf_file import pdf
from served import Served
from shared import SAMPLES

pytestmark = pytest.mark.full

playwright = pytest.importorskip("playwright.sync_api", reason="the Python package playwright is not installed")
expect = playwright.expect
# On a machine that does other work as well.
PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)

KEY = "a-key-for-the-tests"
PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}
BAD = "<img src=x onerror=alert(1)><script>alert(2)</script>"
HOSTILE = {
    "id": "../a b/?#<x>",
    "title": f"{BAD} 🥐",
    # Characters outside the basic plane shift the offsets of browsers.
    "text": f"🥐🥐🥐 It is folded. {BAD} <a href='javascript:alert(3)'>x</a>.\n\nThe Zanzibar fish eats algae at noon.",
    "metadata": {"html": BAD, "year": 2021},
}
PLAIN = {"id": "plain", "title": "Cats", "text": "A cat sleeps for sixteen hours a day [1]."}
CIABATTA = "How is a slack dough like ciabatta handled?"
PAGES = [
    ["Kilns for beginners.", "A kiln is an oven that reaches 1200 degrees."],
    ["Firing schedules.", "Raise the heat of the kiln by 60 degrees an hour at first."],
    ["Opening.", "Let the kiln cool for a whole day before it is opened."],
]
NOTHING = {
    **dict.fromkeys(("page", "source", "level")),
    "headings": [],
    "metadata": {},
    "score": 0.0,
    "explanation": "",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory, make_project, materialise_project):
    folder = tmp_path_factory.mktemp("page")
    docs = folder / "docs"
    docs.mkdir()
    for name in ("bread.md", "glass.md", "rope.md"):
        shutil.copy(SAMPLES / "workshop" / name, docs)
    drawn = [[(60, 760 - 14 * at, 12, line) for at, line in enumerate(page)] for page in PAGES]
    (docs / "kiln.pdf").write_bytes(pdf(drawn))
    lines = [json.dumps(document) for document in (HOSTILE, PLAIN)]
    (folder / "others.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    corpora = {"docs": {"path": "docs"}, "others": {"path": "others.jsonl"}}
    # Answers that are whole sentences, with what they cite.
    made = make_project(folder, {"corpora": corpora, "levels": 3, "answering": {"reader": "extractive"}})
    materialise_project(made.settings)
    return made


@pytest.fixture(scope="module")
def served(project, tmp_path_factory):
    started = Served(project.config, tmp_path_factory.mktemp("open"))
    yield started
    started.end()


@pytest.fixture
def visit(chromium, served):
    """Opens a page in a browser of its own; at the end nothing went wrong in it, and nothing was asked of others."""
    opened = []

    def visit(path="/", server=served, **options):
        context = chromium.new_context(**options)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        seen = SimpleNamespace(errors=watch_errors(page, server.url), outside=[], dialogs=[])
        page.on("request", lambda r: r.url.startswith((server.url, "data:")) or seen.outside.append(r.url))
        page.on("dialog", lambda dialog: (seen.dialogs.append(dialog.message), dialog.dismiss()))
        opened.append((context, seen))
        page.goto(server.url + path)
        return page

    yield visit
    for context, seen in opened:
        context.close()
        # A browser notes every answer that is an error, wanted or not.
        errors = [text for text in seen.errors if "Failed to load resource" not in text]
        assert (errors, seen.outside, seen.dialogs) == ([], [], [])


def ask(page, question):
    expect(page.locator("#about")).to_contain_text("documents in")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type(question)
    page.keyboard.press("Enter")
    answered(page)


def answered(page):
    expect(page.locator("body:not(.busy) .passage").first).to_be_visible()


def query(page):
    return parse_qs(urlsplit(page.url).query)


def fits(page):
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_question_is_asked_read_and_followed_by_keyboard(visit):
    page = visit()
    expect(page.locator("#question")).to_be_focused()
    expect(page.locator("#holdings")).to_contain_text("docs")
    ask(page, CIABATTA)
    expect(page.get_by_role("status")).to_have_text(re.compile(r"^\d+ passages? in \d+ ms$"))
    # Plain words; what they rest on is behind a fold.
    expect(page.locator("#facts")).to_have_text(re.compile(r"^[\d,]+ characters · ranked by fused$"))
    first = page.locator(".passage").first
    expect(first.locator(".place")).not_to_contain_text(re.compile("level|score"))
    expect(first.locator(".why")).to_be_hidden()
    first.get_by_text("Details").click()
    expect(first.locator(".why")).to_contain_text(re.compile(r"^Why: .*level.*Level \d · Score [\d.]+$"))
    ranking = page.locator("#ranking")
    expect(ranking.get_by_text("Chosen because")).to_be_hidden()
    ranking.get_by_text("How they were ranked").click()
    expect(ranking.get_by_text(re.compile(r"Version \w+\. Chosen because"))).to_be_visible()
    expect(first.get_by_role("heading")).to_have_text("Baking Bread")
    expect(first.locator(".place")).to_contain_text("docs / bread.md")
    expect(first.locator("mark").first).to_contain_text("ciabatta at 75 percent")
    # The answer is a sentence of the first passage.
    said = page.locator("#said").inner_text()
    assert "ciabatta" in said
    expect(first.locator("mark.answer")).to_have_text(said)

    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".passage").nth(1)).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("o")
    page.wait_for_url("**/document?*")
    place = page.locator("#text mark:not(.span)").first
    expect(place).to_be_in_viewport()
    expect(place).to_contain_text("ciabatta at 75 percent")
    expect(page.get_by_role("heading", level=1)).to_have_text("Baking Bread")
    expect(page.locator("#contents .here")).to_have_text("Baker's percentages")
    assert page.locator("#text").inner_text().startswith("# Baking Bread\n")
    page.get_by_role("link", name="In the oven").click()
    expect(page.locator("#text").get_by_role("heading", name="In the oven")).to_be_in_viewport()
    page.get_by_role("link", name="Back to the passages").click()
    answered(page)
    expect(page.locator("#question")).to_have_value(CIABATTA)


@pytest.mark.full
def test_the_url_holds_the_question_and_its_options(visit):
    page = visit()
    ask(page, "What do cats do?")
    assert query(page) == {"q": ["What do cats do?"]}
    page.get_by_label("docs", exact=True).uncheck(force=True)
    expect(page.get_by_label("Method")).to_be_hidden()
    page.get_by_text("More options").click()
    page.get_by_label("Method").select_option("fixed-1")
    page.get_by_label("Budget").fill("700")
    page.get_by_label("Only documents where").fill('{"title": "Cats"}')
    page.get_by_role("combobox", name="Answer").select_option("none")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("#facts")).to_contain_text("ranked by fixed-1")
    expect(page.locator(".passage")).to_have_count(1)
    expect(page.locator("#answer")).to_be_hidden()
    wanted = {"method": ["fixed-1"], "budget": ["700"], "corpus": ["others"], "answer": ["none"]}
    assert query(page) == {"q": ["What do cats do?"], "where": ['{"title": "Cats"}'], **wanted}
    linked = page.url
    page.go_back()
    expect(page.locator("#answer")).to_be_visible()
    expect(page.get_by_label("docs", exact=True)).to_be_checked()

    again = visit(linked[linked.index("/?") :])
    expect(again.locator(".passage")).to_have_count(1)
    expect(again.get_by_label("Method")).to_have_value("fixed-1")
    expect(again.get_by_label("docs", exact=True)).not_to_be_checked()
    assert again.url == linked


def test_citations_of_an_answer_lead_to_its_passages(visit):
    page = visit()
    ask(page, "How long does a cat sleep?")
    # The text of the answer refers to its first passage.
    expect(page.locator("#said")).to_have_text(PLAIN["text"])
    page.locator("#said a", has_text="[1]").click()
    expect(page.locator("#passage-1")).to_be_focused()
    expect(page.locator("#sources a").first).to_contain_text("Cats")
    page.get_by_text("How it was made").click()
    expect(page.locator("#steps li").first).to_contain_text("for How long does a cat sleep?")
    expect(page.locator("#steps li").last).to_contain_text("read by extractive")


def test_a_passage_of_a_pdf_leads_to_its_page(visit, served):
    page = visit()
    ask(page, "How long should the kiln cool before it is opened?")
    first = page.locator(".passage").first
    expect(first.locator("mark").first).to_be_visible()
    link = first.get_by_role("link", name=re.compile(r"page \d of the PDF"))
    assert re.search(r"/v1/source/docs/kiln\.pdf#page=\d$", link.evaluate("link => link.href"))
    first.get_by_role("heading").get_by_role("link").click()
    original = page.get_by_role("link", name="Original PDF at page 3")
    assert original.evaluate("link => link.href") == f"{served.url}/v1/source/docs/kiln.pdf#page=3"
    expect(page.locator("#contents .here")).to_have_text("3")
    expect(page.locator("#text .leaf")).to_have_text(["page 1", "page 2", "page 3"])


def test_what_a_document_holds_is_text_and_nothing_else(visit):
    page = visit()
    ask(page, "When does the Zanzibar fish eat algae?")
    row = page.locator(".passage", has_text="Zanzibar").first
    expect(row.get_by_role("heading")).to_have_text(HOSTILE["title"])
    expect(row.locator("mark").last).to_have_text("The Zanzibar fish eats algae at noon.")
    row.get_by_text("Details").click()
    expect(row.locator(".metadata")).to_contain_text(BAD)
    row.get_by_role("heading").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE["title"])
    expect(page.locator("#text")).to_have_text(HOSTILE["text"])
    expect(page.locator("#text mark:not(.span)").last).to_have_text("The Zanzibar fish eats algae at noon.")
    assert page.locator("#document :is(img, script), #text a").count() == 0
    assert page.title().startswith(HOSTILE["title"])


def test_scripts_of_others_are_refused_by_the_page_itself(served, chromium):
    page = chromium.new_page()
    page.goto(served.url)
    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.ran = true";
        document.body.append(script);
    }""")
    assert page.evaluate("window.ran") is None
    page.close()


def test_what_goes_wrong_is_said(visit):
    page = visit("/?q=cats&where={")
    expect(page.get_by_role("alert")).to_contain_text("The filter cannot be read")
    page = visit('/?q=cats&where={"titel": "Cats"}')
    expect(page.get_by_role("alert")).to_contain_text("did you mean 'title'?")
    page = visit("/?q=cats&corpus=nowhere")
    expect(page.get_by_role("alert")).to_contain_text("expected names of corpora (docs, others), got 'nowhere'")
    page = visit('/?q=cats&where={"title": "none"}')
    expect(page.locator("#passages")).to_contain_text("No passage of the corpora and documents that were asked for.")
    expect(page.locator("#said")).to_contain_text("No answer")
    page = visit("/document?corpus=docs&id=none.md")
    expect(page.get_by_role("alert")).to_contain_text("Not found")
    page = visit()
    expect(page.locator("#holdings dd").first).to_be_visible()
    page.context.set_offline(True)
    page.keyboard.type("cats")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")


def answering(page, *happened):
    """Has the server answer with these events from now on."""
    body = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in happened)
    page.unroute("**/v1/ask")
    page.route("**/v1/ask", lambda route: route.fulfill(content_type="text/event-stream", body=body))


def test_every_step_of_an_answer_is_shown_as_it_comes(visit):
    page = visit()
    elsewhere = {"corpus": "docs", "document": "rope.md", "start": 3, "end": 9}
    passage = NOTHING | {"text": "A knot.", "title": BAD, "corpus": "docs", "document": "rope.md", "spans": [elsewhere]}
    told = {"question": "?", "failure": "", "method": "at-rag", "reader": "r", "passages": [passage], "version": "v"}
    steps = [
        ("passages", {"query": "cats", "passages": [passage]}),
        ("thought", {"role": "think", "title": "Thought", "text": f"Perhaps {BAD}"}),
        ("grade", {"role": "grade_support", "title": "Graded for support", "verdict": "no"}),
        ("rewrite", {"role": "rewrite", "title": "Asked in other words", "query": "felines"}),
        ("something new", {}),
        ("answer", {"role": "answer", "text": "A draft."}),
    ]
    done = ("done", {**told, "answer": "They sleep [1], and not [2].", "details": {"calls": 4}})
    answering(page, *steps, done)
    ask(page, "What do cats do?")
    expect(page.locator("#said")).to_have_text("They sleep [1], and not [2].")
    # No passage that was found stands there: the link opens the document.
    (cited,) = page.locator("#said a").all()
    assert cited.get_attribute("href").startswith("document?corpus=docs&id=rope.md&span=3-9")
    page.get_by_text("How it was made").click()
    wanted = [
        "1 passage for cats",
        f"Thought: Perhaps {BAD}",
        "Graded for support: no",
        "Asked in other words: felines",
    ]
    expect(page.locator("#steps li")).to_contain_text([*wanted, "something new", "Answer: A draft.", "4 calls"])

    # What came is not taken for an answer when the end is missing.
    answering(page, *steps)
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("alert")).to_contain_text("The answer was cut off")
    expect(page.locator("#answer")).to_be_hidden()
    answered(page)

    failed = {"title": "Bad Gateway", "status": 502, "detail": "llm: no answer from the model"}
    answering(page, ("error", failed))
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("alert")).to_contain_text("llm: no answer from the model")
    answered(page)


def test_what_is_not_certain_is_a_search_and_an_answer_has_its_sentence_and_the_passage_it_is_from(visit):
    page = visit()
    sentence = "It is pruned by `git gc` after ninety days."
    spans = [{"corpus": "docs", "document": "git.md", "start": 9, "end": 52}]
    text = f"See:\n\n    $ git reflog\n\n{sentence}"
    passage = NOTHING | {"text": text, "corpus": "docs", "document": "git.md"}
    passages = [{**passage, "title": title, "spans": spans} for title in ("Hooks", "Git")]
    likeliest = {"sentence": sentence, **spans[0], "answer_start": 40, "answer_end": 51}
    told = {"question": "?", "failure": "nothing in the passages is certain enough", "method": "one-step"}
    told |= {"reader": "r", "passages": passages, "version": "v", "answer": None, "likeliest": None, "cited": []}
    found = told | {"method_reason": "", "empty_reason": "", "corrections": {}, "weights": None, "topic": None}
    told["details"] = {}
    page.route("**/v1/search", lambda route: route.fulfill(json={**found, "method": "fused", "candidates": ""}))

    def asked(**changes):
        answering(page, ("done", {**told, **changes}))
        ask(page, "When is the reflog pruned?")

    asked(probability=0.04)
    expect(page.get_by_label("A follow-up question")).to_be_visible()
    assert "answer" not in page.locator("main").inner_text().lower().replace("more options", "")
    expect(page.locator("#steps")).to_be_hidden()
    # Code stands in fixed pitch.
    expect(page.locator("#passage-1 .text code").first).to_contain_text("$ git reflog")
    expect(page.locator("#passage-1 .text code").last).to_have_text("`git gc`")
    asked(probability=0.3, likeliest=likeliest)
    expect(page.get_by_role("heading", name="Most relevant sentence")).to_be_visible()
    expect(page.locator("#said")).to_have_text(sentence)
    asked(probability=0.9, likeliest=likeliest, answer="ninety days", failure="", cited=[2])
    expect(page.locator("#said")).to_contain_text(f"ninety days{sentence}")
    expect(page.locator("#said mark")).to_have_text("ninety days")
    expect(page.locator("#sources a")).to_have_text(["2Git"])


def test_a_new_question_replaces_one_that_is_being_answered(visit):
    page = visit()
    expect(page.locator("#holdings dd").first).to_be_visible()
    for question in ("Where does a cat sleep?", CIABATTA):
        page.locator("#question").fill(question)
        page.keyboard.press("Enter")
    answered(page)
    expect(page.locator(".passage").first.get_by_role("heading")).to_have_text("Baking Bread")
    expect(page.locator("#said")).to_contain_text("ciabatta")
    expect(page.get_by_role("alert")).to_be_hidden()


@pytest.mark.full
def test_a_question_that_comes_before_the_choices_waits_for_them(visit):
    page = visit("/healthz")
    held = []
    page.route("**/v1/corpora", lambda route: held.append(route))
    page.goto(page.url.replace("/healthz", "/"))
    page.locator("#question").fill("How long does a cat sleep?")
    page.keyboard.press("Enter")
    expect(page.locator("#method option")).to_have_count(0)
    while not held:
        page.wait_for_timeout(20)
    held[0].abort()
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    page.unroute("**/v1/corpora")
    page.keyboard.press("Enter")
    answered(page)
    assert query(page) == {"q": ["How long does a cat sleep?"]}


def test_a_key_is_asked_for_once_and_kept_for_the_tab(project, visit, tmp_path):
    guarded = Served(project.config, tmp_path, key=KEY)
    try:
        page = visit(server=guarded)
        page.get_by_label("This server asks for a key").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_have_text("This key is not accepted.")
        page.get_by_label("This server asks for a key").fill(KEY)
        page.get_by_role("button", name="Use this key").click()
        expect(page.locator("#key")).to_be_hidden()
        # Passages and answer are asked for at the same time, and wait for one key.
        page.evaluate("sessionStorage.clear()")
        page.locator("#question").fill("How long should the kiln cool before it is opened?")
        page.keyboard.press("Enter")
        page.get_by_label("This server asks for a key").fill(KEY)
        page.keyboard.press("Enter")
        answered(page)
        expect(page.locator("#said")).to_contain_text("whole day")
        page.locator(".passage h3 a").first.click()
        link = page.get_by_role("link", name="Original PDF at page 3")
        with page.expect_popup() as opened:
            link.click()
        assert re.match(rf"blob:{guarded.url}/[\w-]+#page=3$", opened.value.url)
        assert page.evaluate("Object.values(localStorage)") == [] and page.context.cookies() == []
    finally:
        guarded.end()


@pytest.fixture(scope="module")
def noting(project, tmp_path_factory):
    """A server over the same project that notes what is asked and used."""
    config = project.config.with_name("noted.yaml")
    config.write_text(f"{project.config.read_text(encoding='utf-8')}use: {{log: true}}\n", encoding="utf-8")
    started = Served(config, tmp_path_factory.mktemp("noting"))
    yield started
    started.end()


@pytest.mark.whole
def test_a_passage_that_answered_is_noted_and_taken_back_by_keyboard(visit, noting, project):
    from mog_assets.plugins.feedback.use import entries, log_path

    def answers():
        return [e for e in entries(log_path(project.home)) if e.quotes]

    page = visit(server=noting)
    ask(page, CIABATTA)
    second = page.locator(".passage").nth(1)
    button = second.get_by_role("button", name="This answered it")
    expect(button).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("Escape")
    button.focus()
    page.keyboard.press("Enter")
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(button).to_be_focused()
    expect(page.get_by_role("status")).to_have_text("Noted: this passage answered the question.")
    (entry,) = answers()
    assert entry.question == CIABATTA and entry.method == "fused"
    title = second.get_by_role("heading").get_by_role("link").get_attribute("href")
    assert parse_qs(urlsplit(title).query)["id"] == [entry.quotes[0].doc]
    assert second.locator(".text").text_content() == entry.quotes[0].text
    page.keyboard.press("Space")
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(page.get_by_role("status")).to_have_text("Taken back.")
    assert answers() == []
    expect(page.locator(".passage").first.get_by_role("button", name="This answered it")).to_be_visible()


@pytest.mark.whole
def test_a_passage_of_hostile_text_is_noted_as_it_stands(visit, noting, project):
    from mog_assets.plugins.feedback.use import entries, log_path

    page = visit(server=noting, **PHONE)
    ask(page, "When does the Zanzibar fish eat algae?")
    assert fits(page)
    row = page.locator(".passage", has_text="Zanzibar").first
    row.get_by_role("button", name="This answered it").click()
    expect(row).to_contain_text("Noted. Press again to take it back.")
    assert fits(page)
    # Deleted by somebody else: nothing is left to take back.
    found = next(e for e in entries(log_path(project.home)) if e.quotes)
    assert found.quotes[0].doc == HOSTILE["id"] and found.quotes[0].text in HOSTILE["text"]
    assert noting.call(f"/v1/used/{found.id}", method="DELETE")[0] == 200
    row.get_by_role("button", name="This answered it").click()
    expect(page.get_by_role("status")).to_have_text("Taken back.")


@pytest.mark.whole
def test_what_cannot_be_noted_is_said(visit, noting):
    page = visit(server=noting)
    ask(page, CIABATTA)
    button = page.get_by_role("button", name="This answered it").first
    page.context.set_offline(True)
    button.click()
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    expect(button).to_have_attribute("aria-pressed", "false")


def test_there_is_no_button_where_nothing_is_noted(visit):
    page = visit()
    ask(page, CIABATTA)
    expect(page.get_by_role("button", name="This answered it")).to_have_count(0)


@pytest.mark.whole
def test_a_follow_up_is_answered_for_what_it_refers_to(visit):
    page = visit()
    ask(page, CIABATTA)
    expect(page.locator("#before")).to_be_hidden()
    first = page.locator("#said").inner_text()
    page.get_by_role("textbox", name="A follow-up question").fill("And how long does it rise?")
    with page.expect_request("**/v1/search") as retrieved:
        page.keyboard.press("Enter")
    alone = "And how long does it rise? slack dough like ciabatta handled And how long does it rise?"
    assert retrieved.value.post_data_json["question"] == alone
    answered(page)
    expect(page.locator("#turns li")).to_have_count(1)
    expect(page.locator("#turns li")).to_contain_text([CIABATTA])
    expect(page.locator("#turns li")).to_contain_text([re.sub(r"\s*\[\d\]", "", first)[:30]])
    page.get_by_text("How it was made").click()
    expect(page.locator("#steps li").first).to_have_text(f"Searched for {alone}")
    # The page of an earlier turn is a step back, and is as it was; what is typed at the top begins anew.
    page.go_back()
    expect(page.locator("#turns li")).to_have_count(0)
    expect(page.locator("#question")).to_have_value(CIABATTA)
    page.go_forward()
    expect(page.locator("#turns li")).to_have_count(1)
    page.reload()
    expect(page.locator("#turns li")).to_have_count(1)
    answered(page)
    ask(page, "How long does a cat sleep?")
    expect(page.locator("#turns li")).to_have_count(0)


def test_the_conversation_is_text_on_a_phone_too(visit):
    page = visit(**PHONE)
    ask(page, f"How is {BAD} folded?")
    for _ in range(7):
        page.get_by_role("textbox", name="A follow-up question").fill(f"And {BAD} it?")
        page.get_by_role("button", name="Follow up").click()
        expect(page.locator("#follow")).to_be_hidden()
        expect(page.locator("#follow")).to_be_visible()
    expect(page.locator("#turns li")).to_have_count(6)
    expect(page.locator("#turns li").last).to_contain_text(f"And {BAD} it?")
    assert fits(page)


def test_passages_of_a_follow_up_do_not_wait_for_an_answer_that_fails(visit):
    page = visit()
    ask(page, CIABATTA)
    failed = {"title": "Bad", "status": 502, "detail": "away"}
    answering(page, ("standalone", {"question": "Cats?"}), ("error", failed))
    page.locator("#next").fill("And cats?")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("away")
    expect(page.locator(".passage").first).to_contain_text("A cat sleeps")
