"""Rankings of the sample project as people get them: by budget, explained, chosen by `auto`, and never damaged."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import damage
import numpy as np
import pandas as pd
import pytest
import shared
import yaml
from shared import one_line

from mog_assets import config
from mog_assets.build import plan
from mog_assets.build.materialising import materialise
from mog_assets.build.tools import Tools
from mog_assets.evaluate.training_assets import NOW, RECALLS
from mog_assets.search.explain import KNOWN
from mog_assets.search.index import CHOSEN, expert_names
from mog_assets.search.methods import parse, rankings
from mog_assets.search.models import ARRAYS, TREES
from mog_assets.search.passages import pieces_in
from mog_assets.search.rankings import fused
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.router import Router

pytestmark = pytest.mark.full

QUESTION = "What makes the bottom of my tomatoes go dark and sunken?"
EVERYWHERE = ["garden", "workshop", "sky"]
ORDINAL = r"\d+(st|nd|rd|th)"
REASON = (
    rf"(bm25|dense) level \d \({ORDINAL} of \d+\)|title of its document \({ORDINAL} of \d+\)"
    r"|the best text of its document|the text before or after it|the kind of question"
    r"|answers to such questions stand at this place"
    r"|its place \(piece \d+ of \d+ of its document\)|named by one of the best texts"
    r"|what the best texts name leads to it|the question together with its best passage"
    r"|few others have these words|its title is in the question"
)


def called(project, *arguments):
    return shared.called(*arguments, "--config", project.config)


def retrieved(project, *arguments, question=QUESTION):
    result = called(project, "search", question, "--json", *arguments)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def documents(sample_project):
    """Title and text of every document, by corpus and id."""
    tools = Tools(sample_project.settings)
    found = {}
    for corpus in EVERYWHERE:
        stored = tools.store.read("documents", corpus)
        for name in stored.names("bucket"):
            rows = pd.read_parquet(stored.path(name), columns=["id", "title", "text"]).to_dict("records")
            found |= {(corpus, row["id"]): (row["title"], row["text"]) for row in rows}
    return found


def assert_joined(passages, documents):
    """Each is contiguous text of its document, none repeats another, and no two stand next to each other."""
    for passage in passages:
        title, text = documents[passage["corpus"], passage["document"]]
        assert len(passage["spans"]) == 1 and passage["title"] == title
        assert passage["text"] == text[passage["start"] : passage["end"]] != ""
    for a in passages:
        for b in passages:
            if a is not b and (a["corpus"], a["document"]) == (b["corpus"], b["document"]):
                assert a["end"] < b["start"] or b["end"] < a["start"]


# A budget of characters, and k passages


@pytest.mark.parts("mog-paper")
@pytest.mark.parametrize("method", [*rankings(), "fixed-2", "dense-3", "hybrid:mog-paper"])
@pytest.mark.parametrize("budget", [900, 3000])
def test_passages_of_a_budget_are_joined_and_fill_it(sample_project, documents, method, budget):
    passages = retrieved(sample_project, "--method", method, "--budget", budget)
    assert_joined(passages, documents)
    used = sum(len(passage["text"]) for passage in passages)
    pieces = Retrieval.open(*opened(sample_project)).corpora.layout.spans
    if method in rankings():
        # The next piece did not fit; other methods may have no more.
        assert budget - np.diff(pieces, axis=1).max() < used
    assert 0 < used <= budget


def opened(project):
    tools = Tools(project.settings)
    return tools, tools.store.read, EVERYWHERE


def test_the_best_piece_is_there_whatever_its_length(sample_project, documents):
    (passage,) = retrieved(sample_project, "--method", "mix", "--budget", 1)
    (first, *_) = retrieved(sample_project, "--method", "mix", "--k", 1, "--budget", len(passage["text"]))
    assert passage["level"] == 1 and passage == first
    assert_joined([passage], documents)


@pytest.mark.parametrize("method", [*rankings(), "auto"])
def test_k_passages_are_joined_and_a_budget_with_them_is_kept_too(sample_project, documents, method):
    passages = retrieved(sample_project, "--method", method, "--k", 3)
    assert len(passages) == 3
    assert_joined(passages, documents)
    both = retrieved(sample_project, "--method", method, "--k", 3, "--budget", 800)
    assert_joined(both, documents)
    assert len(both) <= 3 and sum(len(p["text"]) for p in both) <= 800


@pytest.mark.whole
def test_neighbourhoods_fit_into_a_budget_as_a_whole(sample_project):
    whole = retrieved(sample_project, "--method", "hop-1", "--k", 6)
    sizes = [sum(span["end"] - span["start"] for span in p["spans"]) for p in whole]
    budget = sum(sizes[:3]) + 1
    assert retrieved(sample_project, "--method", "hop-1", "--budget", budget) == whole[:3]


# Why a passage is there


@pytest.mark.parametrize("method", rankings())
def test_passages_of_a_ranking_say_why_they_are_there(sample_project, method):
    passages = retrieved(sample_project, "--method", method, "--explain")
    plain = retrieved(sample_project, "--method", method)
    assert [{**p, "explanation": ""} for p in passages] == plain
    for passage in passages:
        assert passage["explanation"] and re.fullmatch(rf"({REASON})(, ({REASON}))*", passage["explanation"]), passage[
            "explanation"
        ]
    printed = called(sample_project, "search", QUESTION, "--method", method, "--explain").stdout
    assert [line[8:] for line in printed.splitlines() if line.startswith("   why: ")] == [
        p["explanation"] for p in passages
    ]


@pytest.mark.parts("mog")
@pytest.mark.parametrize("method", ["fused", "multihop", "mog"])
def test_an_explained_ranking_says_how_much_each_retriever_and_level_counted(sample_project, method):
    shown = called(sample_project, "search", QUESTION, "--method", method, "--explain").stdout.splitlines()[0]
    assert shown.startswith("weights: bm25-1 0.")
    shares = dict(zip(shown.split()[1::2], map(float, shown.split()[2::2]), strict=True))
    assert sum(shares.values()) == pytest.approx(1, abs=0.06) and {"dense-1", "bm25-2"} <= set(shares)
    plain = called(sample_project, "search", QUESTION, "--method", method).stdout
    assert "weights:" not in plain


@pytest.mark.parts("mog-paper", "hop-2")
@pytest.mark.parametrize("method", ["fixed-2", "hybrid:fixed-1", "mog-paper", "hop-2"])
def test_what_orders_by_one_score_cannot_be_explained(sample_project, method):
    result = called(sample_project, "search", QUESTION, "--method", method, "--explain")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"explain: expected a ranking ({', '.join(rankings())}), which {method} is not" in one_line(result.stderr)


def test_what_raised_the_best_piece_of_fused_is_what_gives_it_most(sample_project):
    retrieval = Retrieval.open(*opened(sample_project)).with_queries([QUESTION])
    found = retrieval.passages(parse("fused", sample_project.settings), k=1)
    (why,) = retrieval.reasons(parse("fused", sample_project.settings), found)
    candidates, names = retrieval.read.candidates, expert_names(sample_project.settings)
    best = int(np.argmax(fused(candidates, names)))
    (parts,) = Router.shipped().parts(candidates, names, np.array([best]))
    # What its document adds is no news of the best text itself.
    given = dict(zip(names, parts[:-1], strict=True))
    first, *_ = why.removeprefix(f"{KNOWN}, ").split(", ")
    assert first.startswith(max(given, key=given.get).replace("-", " level "))


# What `auto` stands for


def choose(project, **stored):
    """Stores the asset `method` as if it had chosen this."""
    tools, recipes = Tools(project.settings), plan.graph(project.settings)

    def build(work):
        path, _ = work.file(CHOSEN, stored)
        with work.writing(path) as temporary:
            temporary.write_text(json.dumps(stored), encoding="utf-8")
        work.info |= stored

    recipe = replace(recipes["method"], build=build, version=json.dumps(stored))
    materialise(recipe, None, tools, {**recipes, "method": recipe})


def test_auto_is_what_the_asset_says(sample_project, copied_project):
    said = json.loads(Tools(sample_project.settings).store.read("method").path(CHOSEN).read_bytes())
    assert said["method"] in rankings() or "fixed" in said["method"]
    result = called(sample_project, "search", QUESTION, "--json")
    assert result.stderr.strip() == f"ranked by {said['method']}"
    explained = called(sample_project, "search", QUESTION, "--json", "--explain")
    because = f"ranked by {said['method']}, because {said['why']}"
    assert explained.stderr.strip() == because
    assert json.loads(result.stdout) == retrieved(sample_project, "--method", said["method"])

    for name in ("mix", "dense-3"):
        choose(copied_project, method=name, why="it is the best")
        result = called(copied_project, "search", QUESTION, "--json")
        assert result.stderr.strip() == f"ranked by {name}"
        expected = retrieved(copied_project, "--method", name)
        assert json.loads(result.stdout) == expected != retrieved(copied_project, "--method", "fused")
    # Nobody asked for a method that cannot explain: there is nothing to refuse.
    assert {passage["explanation"] for passage in retrieved(copied_project, "--explain")} == {""}
    refused = called(copied_project, "search", QUESTION, "--explain", "--method", "dense-3")
    assert refused.exit_code == 2 and "which dense-3 is not" in one_line(refused.stderr)


def test_an_answer_without_a_retrieval_is_based_on_what_auto_stands_for(copied_project):
    choose(copied_project, method="dense-3", why="it is the best")
    for method, expected in (("one-step", "dense-3"), ("mix -> one-step", "mix"), ("fixed-2 -> one-step", None)):
        told = json.loads(called(copied_project, "ask", QUESTION, "--method", method, "--json").stdout)
        found = [span for passage in told["passages"] for span in passage["spans"]]
        assert found and told["auto"] == (expected if method == "one-step" else None)
        if expected:
            ranked = retrieved(copied_project, "--method", expected, "--budget", copied_project.settings.budget)
            wanted = [span for p in ranked for span in p["spans"]]
            assert found == wanted[: len(found)]
        else:
            assert {passage["level"] for passage in told["passages"]} == {2}


# Damage


@pytest.mark.parts("safetensors-mog")
@pytest.mark.parametrize(
    ("asset", "name", "method"),
    [("mix", ARRAYS, "mix"), ("mix", TREES, "mix"), ("router", ARRAYS, "mog"), ("method", CHOSEN, "auto")],
)
def test_a_flipped_byte_is_refused_in_a_line_and_found_by_verify(copied_project, asset, name, method):
    damage.flip(Tools(copied_project.settings).store.read(asset).path(name))
    result = called(copied_project, "search", QUESTION, "--method", method)
    assert (result.exit_code, result.stdout) == (1, "")
    line = one_line(result.stderr)
    assert asset in line and "expected the bytes that were stored" in line and "run `mog run`" in line
    checked = called(copied_project, "verify")
    assert checked.exit_code == 1
    assert f"{asset}: {name} has changed since it was written" in checked.stderr
    # Nothing else needs it.
    assert retrieved(copied_project, "--method", "fused")


def test_a_method_with_other_bytes_that_are_a_method_is_refused(copied_project):
    choose(copied_project, method="fixed-1", why="it is the best")
    path = Tools(copied_project.settings).store.read("method").path(CHOSEN)
    path.write_bytes(path.read_bytes().replace(b"fixed-1", b"fixed-3"))
    result = called(copied_project, "search", QUESTION)
    assert (result.exit_code, result.stdout) == (1, "")


# A model that is worse than the last one


@pytest.fixture
def trained_better(copied_project):
    """The project after its router was trained again, with an earlier one that found all evidence; and its files."""
    tools, recipes = Tools(copied_project.settings), plan.graph(copied_project.settings)
    genuine = recipes["router"]

    def better(work):
        work.keep(work.draft.previous, ARRAYS)
        table = pd.read_parquet(work.draft.previous.path(RECALLS)).assign(ER=1.0)
        for name in (RECALLS, NOW):
            path, _ = work.file(name, "better")
            with work.writing(path) as temporary:
                table.to_parquet(temporary)

    perfect = replace(genuine, build=better, version="better")
    before = materialise(perfect, None, tools, {**recipes, "router": perfect}).artefact
    outcome = materialise(genuine, None, tools, recipes)
    return SimpleNamespace(project=copied_project, tools=tools, recipes=recipes, before=before, outcome=outcome)


@pytest.mark.whole
def test_a_model_that_is_significantly_worse_than_the_last_one_is_not_used(trained_better, sample_project):
    before, now = trained_better.before.manifest, trained_better.outcome.artefact.manifest
    assert list(trained_better.outcome.faults) == ["new_model_is_used"]
    assert "significantly worse" in trained_better.outcome.faults["new_model_is_used"]
    assert {name: now.files[name] for name in (ARRAYS, RECALLS)} == {n: before.files[n] for n in (ARRAYS, RECALLS)}
    assert now.files[NOW] != before.files[NOW] and now.info["comparison"]["difference"] < 0
    # The new one is remembered by its figures alone, which are those of the sample project.
    stored = Tools(sample_project.settings).store.read("router")
    read = [pd.read_parquet(artefact.path(NOW))["ER"] for artefact in (stored, trained_better.outcome.artefact)]
    np.testing.assert_allclose(*read, atol=0.05)


@pytest.mark.whole
def test_the_model_that_stays_in_use_ranks_and_the_choice_is_made_by_the_figures_of_the_new_one(trained_better):
    tools, recipes, project = trained_better.tools, trained_better.recipes, trained_better.project
    chosen = materialise(recipes["method"], None, tools, recipes).artefact
    # By the figures of the earlier one, which found everything, it would be chosen.
    said = json.loads(chosen.path(CHOSEN).read_bytes())
    assert said["method"] != "mog"
    er = pd.read_parquet(trained_better.outcome.artefact.path(NOW))["ER"].mean()
    assert f"| mog | {er:.4g} |" in chosen.shown()["rankings on training questions, cross-validated"]
    assert retrieved(project, "--method", "mog")


@pytest.mark.whole
def test_a_model_of_other_levels_is_not_kept_whatever_it_found(trained_better):
    project = trained_better.project
    values = yaml.safe_load(project.config.read_text(encoding="utf-8"))
    project.config.write_text(yaml.safe_dump({**values, "levels": 3}, sort_keys=False), encoding="utf-8")
    settings = config.load(project.config)
    tools, recipes = Tools(settings), plan.graph(settings)
    for key in ("candidates", "router"):
        outcome = materialise(recipes[key], None, tools, recipes)
    assert outcome.faults == {}
    assert retrieved(project, "--method", "mog")


def changed(project, **values):
    """Tools and recipes of the project with other settings."""
    held = yaml.safe_load(project.config.read_text(encoding="utf-8"))
    project.config.write_text(yaml.safe_dump({**held, **values}, sort_keys=False), encoding="utf-8")
    settings = config.load(project.config)
    return Tools(settings), plan.graph(settings)


@pytest.mark.whole
def test_a_model_is_not_blamed_for_documents_that_every_ranking_finds_harder(copied_project):
    tools, recipes = Tools(copied_project.settings), plan.graph(copied_project.settings)
    genuine = recipes["router"]

    def easier(work):
        work.keep(work.draft.previous, ARRAYS)
        table = pd.read_parquet(work.draft.previous.path(RECALLS))
        for name in (RECALLS, NOW):
            path, _ = work.file(name, "easier")
            with work.writing(path) as temporary:
                table.assign(ER=table["ER"] + 0.3, fused=table["fused"] + 0.3).to_parquet(temporary)

    before = replace(genuine, build=easier, version="easier")
    materialise(before, None, tools, {**recipes, "router": before})
    assert materialise(genuine, None, tools, recipes).faults == {}


@pytest.mark.whole
def test_a_model_that_is_not_worse_replaces_the_last_one(copied_project):
    tools, recipes = Tools(copied_project.settings), plan.graph(copied_project.settings)
    outcome = materialise(recipes["router"], None, tools, recipes, force=True)
    manifest = outcome.artefact.manifest
    assert outcome.built and outcome.faults == {} and manifest.info["kept"] is None
    assert manifest.info["comparison"]["p"] > 0.05
    recalls, now = (pd.read_parquet(outcome.artefact.path(name)) for name in (RECALLS, NOW))
    pd.testing.assert_frame_equal(recalls, now)


def test_what_only_the_second_search_finds_is_explained_by_it_and_the_rest_by_experts(sample_project):
    tools = Tools(sample_project.settings)
    retrieval = Retrieval.open(tools, tools.store.read, EVERYWHERE, [QUESTION])
    method = parse("multihop", sample_project.settings)
    found = retrieval.rank(method, 1)
    pieces, _ = pieces_in(retrieval.corpora.layout, found.document, found.start, found.end)
    by_itself = set(retrieval.read.candidates.piece.tolist())
    followed = [piece not in by_itself for piece in pieces.tolist()]
    assert any(followed) and not all(followed)
    why = retrieval.reasons(method, found)
    assert [text == "the question together with its best passage" for text in why] == followed
