"""The documentation says what is so: keys, assets, commands and links are checked, and what pages show is run."""

import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import click
import numpy as np
import pytest
import yaml
from documentation import blocks, matches
from pydantic import BaseModel
from shared import ROOT, VARIABLES

from mog_assets import config
from mog_assets.build import plan
from mog_assets.evaluate.candidates_assets import training_examples
from mog_assets.evaluate.choice import choose
from mog_assets.registry import COMMANDS
from mog_assets.resources.store import Store
from mog_assets.search import trainers
from mog_assets.search.training import cross_validated, fused_recalls

# Pages are of all parts.
pytestmark = pytest.mark.whole

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Made by a command, with values of its own in it.
WRITTEN = [page for page in PAGES if not page.name.startswith("results")]


def commands(page):
    """Every command line of a page that is `mog …`, with the output that the page shows below it."""
    for body in blocks(page, "console"):
        for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            line, _, output = part.partition("\n")
            line = line.split("  #")[0].strip().removeprefix(".venv/bin/")
            if line.startswith("mog "):
                yield line, output.strip()


def inline_commands(page):
    text = page.read_text(encoding="utf-8")
    return [found for found in re.findall(r"`(mog [a-z][^`]*)`", text) if "…" not in found and "[" not in found]


def parsed(line):
    """Whether `mog` takes a command line; nothing is run."""
    name, *arguments = shlex.split(line)[1:]
    command = COMMANDS[name]
    while isinstance(command, click.Group) and arguments:
        name, *arguments = arguments
        command = command.get_command(click.Context(command), name)
    known = {option for parameter in command.params for option in parameter.opts}
    unknown = [word.split("=")[0] for word in arguments if word.startswith("--")]
    return [word for word in unknown if word not in {*known, "--help"}]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_every_command_that_a_page_names_exists_with_its_options(page):
    lines = [line for line, _ in commands(page)] + inline_commands(page)
    for line in lines:
        assert shlex.split(line)[1] in COMMANDS, line
        assert parsed(line) == [], line


def test_every_command_is_documented():
    text = (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"`mog {name}" not in text] == []
    assert all(isinstance(command, click.Command) and command.help for command in COMMANDS.values())


def keys(model, prefix=""):
    """Every key of the settings as a dotted path; those of a corpus or question set under `C` and `Q`."""
    for name, field in model.model_fields.items():
        path, kind = f"{prefix}{name}", field.annotation
        if path == "generation":
            yield path
        if type(None) in get_args(kind):
            kind = next(
                (part for part in get_args(kind) if isinstance(part, type) and issubclass(part, BaseModel)), kind
            )
        if path in ("corpora", "question_sets"):
            yield from keys(get_args(kind)[-1], f"{path}.{path[0].upper()}.")
        elif isinstance(kind, type) and issubclass(kind, BaseModel) and name != "training":
            yield from keys(kind, f"{path}.")
        else:
            yield path


def documented_keys():
    """Keys of the tables on the page of settings; `.b` after `a.x` stands for `a.b`."""
    found = set()
    for line in (ROOT / "docs" / "settings.md").read_text(encoding="utf-8").splitlines():
        cell = re.match(r"\| (`[^|]*) \|", line)
        group = ""
        for key in re.findall(r"`([^`]+)`", cell[1]) if cell else ():
            if not key.startswith("."):
                group = key.rpartition(".")[0]
            found.add(f"{group}{key}" if key.startswith(".") else key)
    return {key for key in found if not key.isupper()}


def test_the_page_of_settings_has_every_key_and_no_other():
    wanted = set(keys(config.settings_model()))
    assert documented_keys() - {"chunker"} == wanted


def test_the_page_of_assets_names_every_asset_and_no_other():
    text = (ROOT / "docs" / "assets.md").read_text(encoding="utf-8")
    settings = config.load(ROOT / "mog.yaml")
    variants = [
        {"chunker": {"name": "learned"}},
        {"generation": {"documents": 1}},
        {},
    ]
    there, checks = set(), set()
    for change in variants:
        raw = {**settings.model_dump(mode="json"), **change}
        graph = plan.graph(config.settings_model().model_validate(raw))
        there |= set(graph)
        checks |= {(check.name, check.blocking) for recipe in graph.values() for check in recipe.checks}
    rows = [line.split("|") for line in text.partition("## Checks")[2].splitlines() if line.startswith("| `")]
    assert {(row[1].strip(" `"), row[3].strip() == "yes") for row in rows} == checks
    cells = [line.split("|")[1] for line in text.partition("## Checks")[0].splitlines() if line.startswith("| `")]
    named = {name for cell in cells for name in re.findall(r"`([a-z0-9_/]+)`", cell)} - {"experiments/", "level_5"}
    families = {re.sub(r"level_\d", "level_1", key) for key in there if not key.startswith("experiments/")}
    assert named == families


def component_of(raw):
    """The settings of a Dagster component on a page."""
    module, _, name = raw["type"].rpartition(".")
    attributes = getattr(importlib.import_module(module), name).get_model_cls()(**raw["attributes"])
    prefixes = ("key_prefix", "group_prefix")
    return config.parse({k: v for k, v in attributes.model_extra.items() if k not in prefixes}, ROOT / "defs.yaml")


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_every_yaml_on_a_page_is_a_configuration(page):
    for body in blocks(page, "yaml"):
        raw = yaml.safe_load(body)
        if "attributes" in raw:
            assert component_of(raw).corpora
            continue
        if body.startswith("# access.yaml"):
            # A file of permissions, which they look at.
            continue
        corpora = {name: {"path": "here"} for q in raw.get("question_sets", {}).values() for name in q["corpora"]}
        settings = config.settings_model().model_validate({"corpora": corpora or {"here": {"path": "here"}}, **raw})
        assert raw.keys() <= settings.model_fields_set


@pytest.mark.full
def test_the_site_builds_and_every_link_between_pages_leads_somewhere(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(ROOT / "docs")]
    built = subprocess.run([*command, str(tmp_path / "site")], capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stderr
    for page in ROOT.glob("docs/*.md"):
        assert (tmp_path / "site" / f"{page.stem}.html").exists()


def test_every_relative_link_of_the_readme_leads_to_a_file():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_test_that_the_page_on_reliability_names_exists():
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    there = {
        name
        for file in ROOT.glob("tests/**/test_*.py")
        for name in re.findall(r"^def test_(\w+)", file.read_text(encoding="utf-8"), re.M)
    }
    cells = [
        line.split("|")[-2] for line in text.splitlines() if line.startswith("| ") and not line.startswith("| fault")
    ]
    named = [name for cell in cells for name in re.findall(r"\b[a-z0-9]+(?:_[a-z0-9]+){2,}\b", cell)]
    assert len(named) > 50
    assert [name for name in named if name not in there] == []


def test_pages_are_compared_up_to_blanks_left_out_parts_and_rounding():
    assert matches("ER 0.900 … p", "ER  0.912 [0.8]\n p = 1")
    assert not matches("ER 0.900 … p", "ER 0.950 [0.8] p")
    assert not matches("ER 0.900 of x", "ER 0.900 of y")


@pytest.mark.full
def test_what_pages_show_is_what_the_commands_print(whole_samples):
    shown = [(line, output) for page in WRITTEN for line, output in commands(page) if output]
    assert shown
    for line, output in shown:
        words = [sys.executable, "-m", "mog_assets.cli", *shlex.split(line)[1:]]
        done = subprocess.run(words, cwd=whole_samples.folder, env=clean(), capture_output=True, text=True, timeout=300)
        assert matches(output, done.stdout), f"{line}\n{done.stdout}{done.stderr}"


@pytest.mark.full
@pytest.mark.parametrize("seed", [0, 1])
def test_the_samples_choose_the_same_ranking_with_vectors_as_another_processor_rounds_them(whole_samples, seed):
    from mog_assets.papers.mix_of_granularity.ranking import MOG

    settings = config.load(whole_samples.folder / "mog.yaml")
    store = Store(settings.home)
    examples, _ = training_examples(store.read("candidates"), settings)
    # float32 and bfloat16 differ by so much.
    rng, scores = np.random.default_rng(seed), examples.candidates.scores.copy()
    dense = [i for i, name in enumerate(examples.experts) if name.startswith("dense")]
    scores[:, dense] += rng.normal(0, 1e-3, (len(scores), len(dense)))
    candidates = replace(examples.candidates, scores=scores)
    gold, taught = (replace(part, candidates=candidates) for part in (examples.gold, examples.taught))
    vectors = examples.vectors + rng.normal(0, 4e-4, examples.vectors.shape).astype(np.float32)
    examples = replace(examples, gold=gold, taught=taught, vectors=vectors)
    recalls = {"fused": fused_recalls(examples)}
    for name, trainer in (("tuned", trainers.TUNED), ("mog", MOG), ("mix", trainers.MIX)):
        recalls[name] = cross_validated(*trainer.prepared(examples, settings, lambda _: None), trainer.threads)[0]
    chosen = choose(recalls, ["tuned", "mog", "mix"], examples.documents, settings.seed)
    assert chosen.method == store.read("method").manifest.info["method"] == "fused"


@pytest.mark.full
def test_the_notebook_runs_and_prints_what_it_shows(whole_samples):
    cells = json.loads((ROOT / "examples" / "tour.ipynb").read_text(encoding="utf-8"))["cells"]
    cells = [cell for cell in cells if cell["cell_type"] == "code"]
    first, rest = "".join(cells[0]["source"]).splitlines(), cells[1:]
    # The project is the one that these make.
    assert [line.partition(" >")[0] for line in first] == ["!mog init --samples", "!mog run"]
    script = "\nprint('\\f', end='')\n".join("".join(cell["source"]) for cell in rest)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**clean(), "MPLBACKEND": "Agg", "PATH": path}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=whole_samples.folder, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    for cell, printed in zip(rest, done.stdout.split("\f"), strict=True):
        texts = ["".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream"]
        assert printed == "".join(texts)
        # Pictures were looked at; that there is one is checked here.
        assert ("plt." in "".join(cell["source"])) == any("image/png" in o.get("data", {}) for o in cell["outputs"])


def clean():
    """The environment of somebody who has set no variable of the project.

    Nor the number of threads: sums differ in their last digits by it, and with them the trees that are trained.
    """
    return {name: value for name, value in os.environ.items() if name not in (*VARIABLES, "OMP_NUM_THREADS")}


@pytest.fixture(scope="module")
def whole_samples(tmp_path_factory):
    """The sample project with all its questions, as `mog run` leaves it for a newcomer."""
    folder = tmp_path_factory.mktemp("newcomer")
    for command in (["init", "--samples"], ["run"]):
        words = [sys.executable, "-m", "mog_assets.cli", *command]
        subprocess.run(words, cwd=folder, env=clean(), check=True, capture_output=True, timeout=1200)
    return type("Project", (), {"folder": Path(folder)})
