"""The report: what stands in the page, and how it works in a real browser."""

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from browser import watch_errors

from mog_assets.build.plots import MAX_BYTES
from mog_assets.evaluate.measures import Board, evaluate, headline_measures
from mog_assets.evaluate.scores import COLUMNS, score
from mog_assets.plugins.report import browse, history, plots, shares
from mog_assets.plugins.report.charts import Report
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


@pytest.fixture(scope="module")
def report(measured):
    per_question, scores = measured
    board, methods = Board("set", "test"), ["mog-paper", ATTACK, "fixed-1"]
    return Report(
        scores,
        headline=headline_measures(2),
        advice=f"Use `mix`: {ATTACK}",
        bars=[("mix", 0.9, "0.900 [0.8, 1.0]")],
        notes=[f"A note of `x`: {ATTACK}"],
        main={board: methods},
        groups={board: browse.by_group(per_question, QUESTIONS, methods, ["ER", "MRR"], 0)},
        history=dated(scores),
        facts=[("encoder", ATTACK)],
        configuration={"seed": 0, "corpora": {"moor": {"path": ATTACK}}},
    )


def data_of(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


# What stands in the page


def test_hostile_names_and_texts_stand_escaped_and_nothing_is_asked_of_the_network(report):
    page = render(report)
    assert "<img" not in page
    assert page.count("</script>") == 2
    assert "&lt;img src=x" in page and "\\u003cimg src=x" in page
    outside = re.sub(r'<script type="application/json".*?</script>', "", page, flags=re.S)
    assert "http://" not in outside and "https://" not in outside and "url(" not in outside


def test_the_page_begins_with_what_to_use_and_a_picture_and_has_no_backticks(report):
    page = render(report)
    lead, bars, board = (page.index(text) for text in ("Use <code>mix</code>", '<rect width="90.00"', "<h2"))
    assert lead < bars < board < page.index("A note of <code>x</code>")
    assert "`" not in re.sub(r"<(style|script).*?</\1>", "", page, flags=re.DOTALL)


def test_policy_lets_the_pages_own_script_run_and_no_other(report):
    page = render(report)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.S)
    expected = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"].replace("&#39;", "'") == f"'sha256-{expected}'"
    assert "innerHTML" not in script and "eval" not in script


def test_page_without_anything_says_what_is_missing():
    page = render(Report(pd.DataFrame(columns=list(COLUMNS))))
    for sentence in (
        "No question with evidence was scored.",
        "No ranking that weighs levels and retrievers has run on as many as 5 test questions.",
        "No question was answered",
        "There is no history of evaluations.",
    ):
        assert sentence in page
    assert "data-chart" not in re.sub(r"<script>.*</script>", "", page, flags=re.S)


def rows_of(page: str) -> dict[str, str]:
    rows = re.findall(r'<tr data-method="([^"]*)".*?</tr>', page, re.S)
    return dict(zip(rows, re.findall(r"<tr data-method=.*?</tr>", page, re.S), strict=True))


def test_controls_and_what_sees_the_gold_evidence_have_no_place(report):
    rows = rows_of(render(report))
    places = {name: re.search(r'place-number">(\d*)<', row)[1] for name, row in rows.items()}
    assert places.pop("random") == places.pop("gold") == ""
    assert sorted(places.values()) == ["1", "2", "3", "4", "5"]
    assert "control</span>" in rows["gold"] and "control</span>" not in rows["mog-paper"]


def test_statistics_that_are_there_stand_under_the_values(report):
    assert "effect size" not in render(report)
    scores = report.scores.assign(**dict(zip(STATISTICS, (0.25, 0.125, -0.5, 0.4, np.nan), strict=True)))
    scores.loc[scores["measure"] == "ER", "detectable"] = 0.0625
    row = rows_of(render(replace(report, scores=scores)))["mog-paper"]
    assert "+0.250 [+0.125, -0.500]" in row
    assert "d +0.40, detectable 0.062<" in row and "d +0.40<" in row
    assert "effect size" in render(replace(report, scores=scores))


def test_the_share_of_the_gap_to_gold_stands_where_a_method_is_above_the_best_fixed_level(report):
    er = {"fixed-1": 0.5, "fixed-2": 0.4, "mog-paper": 0.6, ATTACK: 0.5, "mog-paper+topics": 0.45}
    er |= {"gold": 0.9, "random": 0.1}
    scores = report.scores.copy()
    leading = scores["measure"] == "ER"
    scores.loc[leading, "value"] = scores.loc[leading, "method"].map(er)

    def closed(kept):
        page = render(replace(report, scores=scores[scores["method"].isin(kept)]))
        rows = [row.split("<td ")[-2] for row in rows_of(page).values()]
        return dict(zip(rows_of(page), (re.search(r">([^<]*)<", row)[1] for row in rows), strict=True))

    shown = closed(KINDS)
    assert shown.pop("mog-paper") == "25%" and set(shown.values()) == {""}
    # Without evidence there is no gap.
    assert set(closed([name for name in KINDS if name != "gold"]).values()) == {""}


def test_tokens_are_shown_whole_and_sorted_from_the_least(report):
    tokens = report.scores[report.scores["measure"] == "ER"].assign(measure="tokens_to_answer")
    tokens = tokens.assign(value=1234.4, low=1000.0, high=np.where(tokens["method"] == "mog-paper", np.nan, 2000.0))
    tokens.loc[tokens["method"] == "random", ["value", "low", "high"]] = np.nan
    others = report.scores[report.scores["measure"] != "tokens_to_answer"]
    page = render(replace(report, scores=pd.concat([others, tokens], ignore_index=True)))
    rows = rows_of(page)
    assert "1,234<" in rows["fixed-1"] and "[1,000, 2,000]" in rows["fixed-1"]
    assert 'data-value="">–<' in rows["random"]
    assert re.search(r'<th scope="col" data-less><button type="button">tokens_to_answer<', page)


def test_history_marks_what_moved_significantly(report):
    (chart,) = data_of(render(report))["history"]
    marks = {line["name"]: [point["mark"] for point in line["points"]] for line in chart["series"]}
    assert marks["mog-paper"] == ["", "drop"] and marks["fixed-1"] == ["", "rise"] and marks["fixed-2"] == ["", ""]
    assert [line["name"] for line in chart["series"] if line["shown"]] == ["mog-paper", ATTACK, "fixed-1"]


def test_curves_tell_value_and_interval_at_every_length(report):
    (chart,) = data_of(render(report))["curves"]
    lines = {line["name"]: line["points"] for line in chart["series"]}
    assert set(lines) == set(KINDS)
    at = report.scores.set_index(["method", "measure"])
    for name, points in lines.items():
        assert [point["x"] for point in points] == [1000, 2000, 4000, 8000]
        for point in points:
            row = at.loc[(name, f"ER@{point['x']}")]
            assert (point["y"], point["low"], point["high"]) == pytest.approx(
                (row["value"], row["low"], row["high"]), abs=1e-4
            )
            assert f"{row['value']:.3f} [{row['low']:.3f}, {row['high']:.3f}]" in point["text"]


def two_sets(measured):
    """The scores of the same questions as real and generated ones, and who made them."""
    per_question, _ = measured
    table = pd.concat([per_question.assign(question_set=name) for name in ("made", "set")], ignore_index=True)
    return table, score(table, 2, 0, KINDS), {"made": "generated", "set": "given"}


def test_generated_questions_come_after_real_ones_in_tables_and_charts(report, measured):
    _, scores, origins = two_sets(measured)
    page = render(replace(report, scores=scores, origins=origins, history=dated(scores)))
    sets = re.findall(r'<h3 id="board-\d+">(.*?)</h3>', page)
    assert [name.split(", 12")[0] for name in sets] == ["set (test)", "made (test), generated by a language model"]
    data = data_of(page)
    for charts in (data["curves"], data["history"]):
        assert [chart["name"].split(" ")[0] for chart in charts] == ["set", "made"]


def test_few_questions_say_which_difference_they_could_show(measured):
    _, scores, origins = two_sets(measured)
    page = render(Report(scores, origins=origins))
    said = "With 12 questions on 12 documents, a difference in ER from <code>fixed-1</code> shows if it is at"
    assert page.count(said) == 2


EXPERTS = ["bm25-1", "bm25-2", "dense-1", "dense-2", "title", "mention"]
# Of short documents, of long ones.
SHORT, LONG = [0, 0.4, 0, 0.4, 0.1, 0.1], [0.3, 0, 0.5, 0, 0.2, 0]


def counted(method="fused", chosen="fused"):
    """Shares of six questions about short documents, six about long ones, four of them of a kind."""
    places = [Evidence("short" if i < 6 else ATTACK, "d", 0, 1) for i in range(12)]
    asked = [Question(f"q{i}", "?", "rare" if i < 4 else "", "test", evidence=(own,)) for i, own in enumerate(places)]
    own = shares.parts(np.array([SHORT] * 6 + [LONG] * 6), EXPERTS, 2)
    return browse.of_one(shares.table(shares.mean_shares(method, asked, own), 2), chosen)


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
    chosen = {name: browse.of_one(both, name).attrs["method"] for name in ("mog", "mix", "dense:fixed-1")}
    assert chosen == {"mog": "mog", "mix": "fused", "dense:fixed-1": "fused"}
    assert browse.of_one(both[both["method"] == "tuned"], "mix").attrs["method"] == "tuned"


def test_shares_stand_as_a_picture_and_as_figures(report):
    page = render(replace(report, shares=counted()))
    part = page[page.index('<h2 id="shares">') : page.index('<h2 id="answers">')]
    assert "<code>fused</code>" in part and "No ranking" not in part and html.escape(ATTACK, quote=False)[:20] in part
    bars = re.findall(r'<svg class="counted".*?</svg>', part, re.S)
    widths = [[float(width) for width in re.findall(r' width="([\d.]+)"', bar)] for bar in bars]
    assert [sum(own) for own in widths] == pytest.approx([100] * 3)
    assert widths[1] != widths[2]
    assert part.count("<td>40.0%</td>") == 2 and "<title>BM25 level 2: 40.0%</title>" in part


def test_environment_names_versions_and_machine():
    facts = dict(environment())
    assert re.fullmatch(r"3\.\d+\.\d+", facts["python"])
    assert all(facts[name] for name in ("mog-assets", "dagster", "torch", "platform"))
    assert int(facts["processor cores"]) >= 1


# What readers look into


def test_main_methods_are_the_best_of_each_kind_and_the_baseline_last(measured):
    _, scores = measured
    found = browse.main_methods(scores)
    er = scores[scores["measure"] == "ER"].set_index("method")["value"]
    assert er["fixed-1"] > er["fixed-2"] and found[-1] == "fixed-1"
    assert set(found) == {"fixed-1", "mog-paper", "mog-paper+topics", ATTACK}
    assert er[found[:-1]].is_monotonic_decreasing
    assert browse.main_methods(scores, 1) == ["fixed-1"]


def test_groups_are_means_over_their_questions(measured):
    per_question, _ = measured
    table = browse.by_group(per_question, QUESTIONS, ["mog-paper", "fixed-1"], ["ER"], 0)
    assert table[["by", "group", "n"]].drop_duplicates().to_numpy().tolist() == [
        ["kind", "across", 8],
        ["kind", "", 4],
        ["corpus", "moor", 12],
    ]
    across = {q.id for q in QUESTIONS if q.kind == "across"}
    for row in table.to_dict("records"):
        own = per_question[per_question["method"] == row["method"]]
        own = own[own["question"].isin(across)] if row["group"] == "across" else own
        own = own[~own["question"].isin(across)] if row["group"] == "" else own
        assert row["value"] == pytest.approx(own["ER"].mean())
        assert row["low"] <= row["value"] <= row["high"]


def test_question_with_evidence_in_two_corpora_counts_in_both(measured):
    per_question, _ = measured
    both = replace(QUESTIONS[0], evidence=(*QUESTIONS[0].evidence, Evidence("fen", "d", 0, 1)))
    table = browse.by_group(per_question, [both, *QUESTIONS[1:]], ["mog-paper"], ["ER"], 0)
    assert dict(zip(table["group"], table["n"], strict=True)) == {"across": 8, "": 4, "moor": 12, "fen": 1}


def test_groups_name_their_documents_and_have_no_interval_on_one(measured):
    per_question, _ = measured
    alone = per_question["question"].isin([q.id for q in QUESTIONS if not q.kind])
    table = per_question.assign(document=per_question["document"].mask(alone, "one"))
    found = browse.by_group(table, QUESTIONS, ["mog-paper"], ["ER"], 0).set_index("group")
    assert found["documents"].to_dict() == {"across": 8, "": 1, "moor": 9}
    assert found["low"].isna().to_dict() == {"across": False, "": True, "moor": False}


def test_plots_are_small_pngs(drawn, measured):
    scores = measured[1].assign(question_set="a $strange$ <set>")
    counted = browse.of_one(shares.table([("mix", "", "a $b$", 5, 0.5, 0.25, 0.25)], 1), "mix")
    pictures = [plots.leaderboard_bars(scores, name) for name in ("a $strange$ <set>", "absent")]
    assert all(data.startswith(b"\x89PNG") and len(data) < MAX_BYTES for data in [*pictures, plots.shares(counted)])


# In a browser


@pytest.fixture
def visit(chromium):
    """Opens a page; in the end it has asked for nothing but itself, and no script of it has failed."""
    contexts, errors, asked = [], [], []

    def open_page(path, **options):
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        errors.append(watch_errors(page, path.as_uri()))
        page.on("request", lambda request: asked.append((request.url, path.as_uri())))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [error for found in errors for error in found] == []
    assert asked and [url for url, own in asked if url != own and not url.startswith("data:")] == []


@pytest.fixture(scope="module")
def stored(sample_project):
    return Store(sample_project.settings.home).read("report").path("report.html")


def shown(board):
    return board.locator("tbody tr:not([hidden])")


def column(board, name):
    """Figures of a column, in the order of the rows."""
    at = board.locator("thead th").all_text_contents().index(name)
    cells = board.locator("tbody tr").evaluate_all("(rows, at) => rows.map(row => row.cells[at].dataset.value)", at)
    return [float(cell) for cell in cells]


@pytest.mark.whole
def test_leaderboard_is_sorted_by_click_and_by_keyboard(visit, stored):
    page = visit(stored)
    board = page.locator(".board").first
    er = column(board, "ER")
    assert len(er) > 20 and er == sorted(er, reverse=True) and er[0] > er[-1]
    mrr = board.locator("th", has=page.get_by_role("button", name="nDCG@10", exact=True))
    mrr.get_by_role("button").click()
    assert mrr.get_attribute("aria-sort") == "descending"
    values = column(board, "nDCG@10")
    assert values == sorted(values, reverse=True) and values[0] > values[-1]
    assert board.locator("[aria-sort]").count() == 1

    # The button before it in the order of the page is that of hit@2.
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.textContent") == "hit@2"
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    values = column(board, "hit@2")
    assert values == sorted(values) and values[0] < values[-1]
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert mrr.get_attribute("aria-sort") == "descending"

    board.get_by_role("button", name="method", exact=True).click()
    names = board.locator("tbody tr").evaluate_all("rows => rows.map(row => row.dataset.method)")
    assert names.index("fixed-1") < names.index("fixed-2") < names.index("mog-paper") and names[0].startswith("dense")


@pytest.mark.whole
def test_leaderboard_shows_the_methods_that_a_reader_asks_for(visit, stored):
    page = visit(stored)
    board = page.locator(".board").first
    every = shown(board).count()
    told = board.locator("output")
    assert told.text_content() == f"{every} of {every} methods"
    board.get_by_label("Method").fill("FUSED 2")
    names = [row.get_attribute("data-method") for row in shown(board).all()]
    assert names and len(names) < every and all("fused-paper" in name and "2" in name for name in names)
    assert told.text_content() == f"{len(names)} of {every} methods"
    board.get_by_label("Retriever").select_option("hybrid")
    assert [row.get_attribute("data-method") for row in shown(board).all()] == ["hybrid:fused-paper-2"]
    board.get_by_label("Method").fill("")
    board.get_by_label("Retriever").select_option("")
    board.get_by_label("Kind").select_option("mog-paper")
    board.get_by_label("Topics").select_option("topics")
    assert [row.get_attribute("data-method") for row in shown(board).all()] == ["mog-paper+topics"]
    assert told.text_content() == f"1 of {every} methods"


def test_reader_chooses_measures_and_what_stands_under_them(visit, stored):
    page = visit(stored)
    board = page.locator(".board").first
    heads = board.locator("thead th:not([hidden])")
    before = heads.all_text_contents()
    assert before[:3] == ["method", "ER", "ER@1000"] and not {"MRR", "ER@2000"} & {*before}
    # No column is cut at the width of a laptop.
    assert board.locator(".scroll").evaluate("part => part.scrollWidth <= part.clientWidth")
    board.get_by_text("Measures:").click()
    board.get_by_label("MRR", exact=True).check()
    board.get_by_label("ER@1000", exact=True).uncheck()
    after = heads.all_text_contents()
    assert "MRR" in after and "ER@1000" not in after
    assert all(row.locator("td:not([hidden])").count() == len(after) - 1 for row in shown(board).all()[:3])
    assert board.locator(".interval:visible").count() > 0
    board.get_by_label("interval").uncheck()
    assert board.locator(".interval:visible").count() == 0
    assert board.locator(".p:visible").count() > 0


@pytest.mark.whole
def test_curves_tell_their_figures_and_draw_the_chosen_methods(visit, stored):
    page = visit(stored)
    chart = page.locator("[data-chart=curves]").first
    lines = chart.locator("svg polyline")
    assert lines.count() == chart.locator(".legend input:checked").count() == browse.MOST_METHODS
    assert chart.locator(".dot").count() == 4 * browse.MOST_METHODS
    chart.locator(".dot").first.focus()
    told = chart.locator("output")
    first = told.text_content()
    assert re.search(r" at 1,000 characters: \d\.\d{3} \[\d\.\d{3}, \d\.\d{3}\]$", first)
    page.keyboard.press("ArrowRight")
    assert told.text_content().startswith(first.split(" at ")[0] + " at 2,000 characters")
    chart.locator(".legend input:checked").first.uncheck()
    assert lines.count() == browse.MOST_METHODS - 1
    chart.get_by_text("more").click()
    chart.get_by_label("fused-paper-5", exact=True).check()
    assert lines.count() == browse.MOST_METHODS
    history_chart = page.locator("[data-chart=history]").first
    assert history_chart.locator(".dot").count() == browse.MOST_METHODS
    # Four ways and two controls, by two measures.
    assert page.locator("[data-chart=answers] .dot").count() == 12


def test_groups_change_with_the_measure(visit, stored):
    page = visit(stored)
    part = page.locator(".groups").first
    table = part.get_by_role("region")
    assert table.count() == 1 and "ER" in table.get_attribute("aria-label")
    before = table.text_content()
    assert all(name in before for name in ("garden", "workshop", "sky", "pinpoint"))
    part.get_by_label("Measure").select_option("nDCG@10")
    assert (
        table.count() == 1 and table.get_attribute("aria-label").endswith("nDCG@10") and table.text_content() != before
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_fits_a_phone_in_either_scheme(visit, stored, scheme):
    page = visit(stored, viewport={"width": 375, "height": 800}, color_scheme=scheme, has_touch=True, is_mobile=True)
    for summary in page.locator("summary:has-text('Measures'), summary:has-text('Configuration')").all():
        summary.tap()
    assert page.evaluate("document.documentElement.scrollWidth") == 375
    assert page.evaluate("visualViewport.scale") == 1
    # Perceived lightness of text and background.
    paper, ink = page.evaluate(
        "['backgroundColor', 'color'].map(name => getComputedStyle(document.body)[name].match(/\\d+/g).map(Number))"
    )
    assert (sum(paper) < sum(ink)) == (scheme == "dark")
    drawn = page.locator("[data-chart=curves] svg.key ~ svg, [data-chart=curves] .plot svg").first
    assert drawn.bounding_box()["width"] <= 375


def test_levels_and_retrievers_that_counted_are_seen_without_a_script(visit, stored):
    page = visit(stored, java_script_enabled=False)
    rows = page.locator("#shares ~ .scroll").first.locator("tbody tr")
    groups = rows.locator("th").all_text_contents()
    assert groups[0] == shares.EVERY and {"garden", "workshop", "sky"} & set(groups)
    assert rows.locator("svg.counted").count() == len(groups)
    assert rows.first.locator("svg.counted").bounding_box()["width"] > 200
    for row in rows.all():
        # The picture has them as titles, too.
        cells = [cell for cell in row.locator("td").all_text_contents() if re.fullmatch(r"[\d.]+%", cell)]
        figures = [float(cell.removesuffix("%")) for cell in cells]
        assert sum(figures) == pytest.approx(100, abs=1)


def test_contents_lead_to_every_section(visit, stored):
    page = visit(stored)
    links = page.locator("nav a")
    targets = [link.get_attribute("href").removeprefix("#") for link in links.all()]
    assert targets == [head.get_attribute("id") for head in page.locator("h2").all()]
    repeated = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(repeated) == len(set(repeated))


def test_page_says_what_it_was_made_with_and_names_no_folder(visit, stored, sample_project):
    page = visit(stored)
    said = page.locator("#made-with ~ .scroll").last.text_content()
    manifest = Store(sample_project.settings.home).read("scores").manifest
    assert manifest.version[:12] in said and "all-MiniLM-L6-v2" in said and "dagster" in said
    assert "garden.jsonl" in page.locator("pre").text_content()
    assert str(sample_project.folder) not in stored.read_text(encoding="utf-8")


def test_hostile_texts_are_shown_as_texts(visit, report, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(render(report), encoding="utf-8")
    page = visit(path)
    assert page.locator(".board tbody tr").count() == len(KINDS)
    page.locator("[data-chart=history] .dot.marked").first.focus()
    assert "significant drop" in page.locator("[data-chart=history] output").text_content()
    assert page.locator("img").count() == 0
    assert page.title() == "Retrieval report"


def test_script_that_slipped_in_does_not_run(chromium, report, tmp_path):
    path = tmp_path / "report.html"
    attack = "<main><script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"
    path.write_text(render(report).replace("<main>", attack), encoding="utf-8")
    page = chromium.new_page()
    page.goto(path.as_uri())
    assert page.locator("main > img").count() == 1
    # The page's own script has run all the same.
    assert page.locator(".board output").text_content() == f"{len(KINDS)} of {len(KINDS)} methods"
    assert page.title() == "Retrieval report"
    page.close()
