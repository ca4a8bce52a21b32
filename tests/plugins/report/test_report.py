"""The report: what stands in the page, and how it works in a real browser."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from browser import watch_errors

from mog_assets.build.plots import MAX_BYTES
from mog_assets.evaluate.measures import evaluate
from mog_assets.evaluate.scores import score
from mog_assets.plugins.report import history, parts, plots, shares
from mog_assets.plugins.report.page import environment, render
from mog_assets.questions.sets import Evidence, Question
from mog_assets.resources.store import Store

pytestmark = pytest.mark.full

ATTACK = "</script><img src=x onerror=\"document.title='owned'\">"
# Two halves of a surrogate pair each in a browser, one character here.
TEXT = f"😀😀 {ATTACK} The wren sings. " + "Nothing to see. " * 100
GOLD = (TEXT.index("The wren"), TEXT.index(" Nothing to see"))
QUESTIONS = [
    Question(
        f"q{i}", f"Who sings {ATTACK}?", "across" if i % 3 else "", "test", evidence=(Evidence("moor", ATTACK, *GOLD),)
    )
    for i in range(12)
]
KINDS = {
    "mog-paper": ("bm25", "mog-paper"),
    "fixed-1": ("bm25", "fixed"),
    "fixed-2": ("bm25", "fixed"),
    ATTACK: ("bm25", "fused-paper"),
    "mog-paper+topics": ("bm25", "mog-paper+topics"),
    "gold": ("", "gold"),
    "random": ("", "random"),
}
# What raised the score of a passage, where that is known.
WHY = {ATTACK: f"dense level 1 (2nd of 9), {ATTACK}"}
STATISTICS = ("difference", "difference_low", "difference_high", "effect", "detectable")
RUN_COLUMNS = ["question_set", "split", "question", "method", "rank", "corpus", "doc", "start", "end"]
RUN_COLUMNS += ["tokens", "level", "score", "why"]


def made_runs() -> pd.DataFrame:
    """Each method finds the evidence of another number of questions, and something else first."""
    rows = []
    for at, method in enumerate(KINDS):
        for i, question in enumerate(QUESTIONS):
            why = WHY.get(method, "")
            spans = [(0, 40), (800, 1400)] if i < 2 * at else [(800, 1400), (0, len(TEXT))]
            if method == "gold":
                spans = [GOLD]
            rows += [
                ("set", "test", question.id, method, rank, "moor", ATTACK, *span, 9, 1, -float(rank), why)
                for rank, span in enumerate(spans, start=1)
            ]
    return pd.DataFrame(rows, columns=RUN_COLUMNS)


@pytest.fixture(scope="module")
def measured():
    """What every method is worth on every question, and the scores."""
    per_question = evaluate(made_runs(), {"set": QUESTIONS}, 2)
    # The text is one for all questions: as if each had a copy of its own.
    per_question = per_question.assign(document=per_question["question"])
    scores = score(per_question, 2, 0, KINDS)
    return per_question, scores.drop(columns=list(STATISTICS), errors="ignore")


def dated(scores):
    """The history of two evaluations: a drop of one method and a rise of another."""
    nights = []
    for night in (1, 2):
        methods = scores[["question_set", "split", "evidence", "method"]].drop_duplicates()
        moved = night == 2
        methods = methods.assign(
            p=np.where(methods["method"].isin(["mog-paper", "fixed-1"]) & moved, 0.01, 1.0),
            dropped=(methods["method"] == "mog-paper") & moved,
        )
        nights.append(history.rows(scores, ["ER"], datetime(2026, 1, night, 3, tzinfo=UTC), "v", "c", methods))
    return history.joined(*nights)


EXPERTS = ["bm25-1", "bm25-2", "dense-1", "dense-2", "title", "mention"]
# Of short documents, of long ones.
SHORT, LONG = [0, 0.4, 0, 0.4, 0.1, 0.1], [0.3, 0, 0.5, 0, 0.2, 0]


def counted(method="fused", chosen="fused"):
    """Shares of six questions about short documents, six about long ones, four of them of a kind."""
    places = [Evidence("short" if i < 6 else ATTACK, "d", 0, 1) for i in range(12)]
    asked = [Question(f"q{i}", "?", "rare" if i < 4 else "", "test", evidence=(own,)) for i, own in enumerate(places)]
    own = shares.parts(np.array([SHORT] * 6 + [LONG] * 6), EXPERTS, 2)
    return parts.of_one(shares.table(shares.mean_shares(method, asked, own), 2), chosen)


@pytest.fixture(scope="module")
def page(measured):
    per_question, scores = measured
    shown = [
        *parts.of_scores(scores, 2, {}),
        parts.of_groups(scores, per_question, {"set": QUESTIONS}, 0),
        parts.of_shares(counted()),
        parts.of_answers(None, []),
        parts.of_known_items([]),
        parts.of_history(dated(scores), {}),
        parts.Part("Made with", f"A note of `x`: {ATTACK}", {"": [{"what": "encoder", "value": ATTACK}]}),
    ]
    return render(f"Use `mix`: {ATTACK}", shown, {"seed": 0, "corpora": {"moor": {"path": ATTACK}}})


# What stands in the page


def test_hostile_names_and_texts_stand_escaped_and_nothing_is_asked_of_the_network(page):
    assert "<img src=x" not in page and "<script" not in page
    assert "&lt;img src=x" in page
    assert "http://" not in page and "https://" not in page and "url(" not in page
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'" and "script-src" not in rules


def test_the_page_begins_with_what_to_use_and_has_no_backticks(page):
    assert page.index("Use <code>mix</code>") < page.index("<h2") < page.index("A note of <code>x</code>")
    assert "`" not in re.sub(r"<(style|pre).*?</\1>", "", page, flags=re.DOTALL)


def test_the_leaderboard_has_every_method_best_first_with_intervals(measured):
    _, scores = measured
    board = parts.of_scores(scores, 2, {})[0]
    ((title, rows),) = board.tables.items()
    assert title == "set (test), 12 questions on 12 documents"
    # What cannot answer a real question is told apart.
    controls = {name for name in KINDS if name in ("gold", "random")}
    assert {row["method"] for row in rows} == {*KINDS} - controls | {f"{name} (control)" for name in controls}
    means = [float(row["ER"].split()[0]) for row in rows]
    assert means == sorted(means, reverse=True) and re.fullmatch(r"\d\.\d{3} \[\d\.\d{3}, \d\.\d{3}\]", rows[0]["ER"])
    (every,) = board.folded.values()
    assert set(rows[0]) - {"gap closed"} < set(every[0])


def test_the_share_of_the_gap_to_gold_stands_where_a_method_is_above_the_best_fixed_level(measured):
    _, scores = measured
    ((_, rows),) = parts.of_scores(scores, 2, {})[0].tables.items()
    closed = {row["method"]: row["gap closed"] for row in rows}
    er = scores[scores["measure"] == "ER"].set_index("method")["value"]
    fixed = max(er["fixed-1"], er["fixed-2"])
    assert closed["gold (control)"] == closed["fixed-1"] == ""
    above = [name for name in KINDS if er[name] > fixed and name != "gold"]
    assert {name for name, share in closed.items() if share} == set(above)
    for name in above:
        assert closed[name] == f"{(er[name] - fixed) / (er['gold'] - fixed):.0%}"


def two_sets(measured):
    """The scores of the same questions as real and generated ones, and who made them."""
    per_question, _ = measured
    table = pd.concat([per_question.assign(question_set=name) for name in ("made", "set")], ignore_index=True)
    return table, score(table, 2, 0, KINDS), {"made": "generated", "set": "given"}


def test_generated_questions_come_after_real_ones(measured):
    _, scores, origins = two_sets(measured)
    names = list(parts.of_scores(scores, 2, origins)[0].tables)
    assert [name.split(", 12")[0] for name in names] == ["set (test)", "made (test), generated by a language model"]


def test_few_questions_say_which_difference_they_could_show(measured):
    _, scores, origins = two_sets(measured)
    said = "With 12 questions on 12 documents, a difference in ER from `fixed-1` shows if it is at least"
    assert said in parts.of_scores(scores, 2, origins)[0].text


def test_a_page_without_anything_says_what_is_missing(measured):
    none = measured[1].iloc[:0]
    empty = [
        *parts.of_scores(none, 2, {}),
        parts.of_groups(none, measured[0].iloc[:0], {}, 0),
        parts.of_shares(counted().iloc[:0]),
        parts.of_answers(None, []),
        parts.of_known_items([]),
        parts.of_history(pd.DataFrame(columns=list(history.COLUMNS)), {}),
    ]
    texts = [part.text for part in empty]
    assert len(texts) == 6 and all(text.startswith(("No ", "There is no")) for text in texts)
    assert render("", empty, {}).count("<table") == 0


def test_shares_are_means_over_all_questions_and_over_those_of_each_corpus_and_large_kind():
    table = counted()
    assert table[["by", "group", "n"]].to_numpy().tolist() == [
        ["", shares.EVERY, 12],
        ["corpus", ATTACK, 6],
        ["corpus", "short", 6],
    ]
    names = ["BM25 level 1", "BM25 level 2", "vectors level 1", "vectors level 2", "others"]
    assert list(table.columns[3:]) == names
    every, long, short = table[names].to_numpy()
    assert long == pytest.approx([0.3, 0, 0.5, 0, 0.2]) and short == pytest.approx([0, 0.4, 0, 0.4, 0.2])
    assert every == pytest.approx((long + short) / 2)


def test_shares_are_those_of_the_ranking_in_use_or_of_fused():
    both = pd.concat([counted(name, name).assign(method=name) for name in ("mog", "tuned", "fused")])
    chosen = {name: parts.of_one(both, name).attrs["method"] for name in ("mog", "mix", "dense:fixed-1")}
    assert chosen == {"mog": "mog", "mix": "fused", "dense:fixed-1": "fused"}
    assert parts.of_one(both[both["method"] == "tuned"], "mix").attrs["method"] == "tuned"


def test_environment_names_versions_and_machine():
    facts = dict(environment())
    assert re.fullmatch(r"3\.\d+\.\d+", facts["python"])
    assert all(facts[name] for name in ("mog-assets", "dagster", "torch", "platform"))
    assert int(facts["processor cores"]) >= 1


# What readers look into


def test_main_methods_are_the_best_of_each_kind_and_the_baseline_last(measured):
    _, scores = measured
    found = parts.main_methods(scores)
    er = scores[scores["measure"] == "ER"].set_index("method")["value"]
    assert er["fixed-1"] > er["fixed-2"] and found[-1] == "fixed-1"
    assert set(found) == {"fixed-1", "mog-paper", "mog-paper+topics", ATTACK}
    assert er[found[:-1]].is_monotonic_decreasing
    assert parts.main_methods(scores, 1) == ["fixed-1"]


def test_groups_are_means_over_their_questions_and_name_their_documents(measured):
    per_question, _ = measured
    both = replace(QUESTIONS[0], evidence=(*QUESTIONS[0].evidence, Evidence("fen", "d", 0, 1)))
    alone = per_question["question"].isin([q.id for q in QUESTIONS if not q.kind])
    table = per_question.assign(document=per_question["document"].mask(alone, "one"))
    rows = parts.by_group(table, [both, *QUESTIONS[1:]], ["mog-paper", "fixed-1"], "ER", 0)
    assert [[row["by"], row["group"], row["questions"]] for row in rows] == [
        ["kind", "across", "8 questions on 8 documents"],
        ["kind", "(none)", "4 questions on 1 document"],
        ["corpus", "moor", "12 questions on 9 documents"],
        ["corpus", "fen", "1 question on 1 document"],
    ]
    own = per_question[(per_question["method"] == "mog-paper") & ~alone]["ER"].mean()
    assert rows[0]["mog-paper"].startswith(f"{own:.3f} [") and rows[1]["mog-paper"].endswith(" [–]")


def test_plots_are_small_pngs(drawn):
    counted = parts.of_one(shares.table([("mix", "", "a $b$", 5, 0.5, 0.25, 0.25)], 1), "mix")
    assert plots.shares(counted).startswith(b"\x89PNG") and len(plots.shares(counted)) < MAX_BYTES


# In a browser


@pytest.fixture(scope="module")
def stored(sample_project):
    return Store(sample_project.settings.home).read("report").path("report.html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_whole_without_scripts_and_fits_a_phone(chromium, stored, sample_project, scheme):
    size = {"width": 375, "height": 800}
    context = chromium.new_context(viewport=size, color_scheme=scheme, is_mobile=True, java_script_enabled=False)
    page = context.new_page()
    errors = watch_errors(page, stored.as_uri())
    page.goto(stored.as_uri())
    links = [link.get_attribute("href").removeprefix("#") for link in page.locator("nav a").all()]
    assert links == [head.get_attribute("id") for head in page.locator("h2").all()] and len(links) == len(set(links))
    for summary in page.locator("summary").all():
        summary.click()
    assert page.locator("body").bounding_box()["width"] <= 375
    assert all(picture.bounding_box()["width"] <= 375 for picture in page.locator("img").all())
    said = page.locator("main").text_content()
    version = Store(sample_project.settings.home).read("scores").manifest.version
    assert version[:12] in said and "all-MiniLM-L6-v2" in said and "garden.jsonl" in said
    assert all(name in said for name in ("garden", "workshop", "sky", "pinpoint", shares.EVERY))
    assert str(sample_project.folder) not in stored.read_text(encoding="utf-8")
    assert errors == []
    context.close()
