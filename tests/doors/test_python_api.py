"""The Python API: what it gives, from several threads, and while runs replace artefacts."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata

import damage
import pytest
from documentation import blocks
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from shared import ROOT, copy_folder, until

import mog_assets
from mog_assets.build import plan
from mog_assets.build.materialising import materialise
from mog_assets.build.tools import Tools
from mog_assets.resources.errors import ConfigError, MissingArtefact, MogError, NotFound
from mog_assets.resources.publishing import unused
from mog_assets.serve import generations

QUESTION = "How deep are potatoes planted?"
QUESTIONS = [QUESTION, "Why is the sky blue?", "How is a joint glued?", "When are beans sown?", "What is a comet?"]
CORPORA = ["garden", "workshop", "sky"]
REFRESH = 0.2


@pytest.fixture(scope="module")
def opened(sample_project):
    with mog_assets.open(sample_project.config, refresh=None) as project:
        yield project


def rebuild(project, corpus, *, until=None, without=()):
    """Make what searches read and is out of date, of one corpus, one after another, up to one, some left out."""
    recipes, tools = plan.graph(project.settings), Tools(project.settings)
    for recipe in recipes.values():
        shared = recipe.key in ("statistics", "names")
        if (recipe.partitioned or shared) and not recipe.on_demand and recipe.key not in without:
            materialise(recipe, None if shared else corpus, tools, recipes)
            if recipe.key == until:
                return


def edit(project, text):
    """Replace the text of the potatoes' document."""
    path = project.folder / "samples" / "garden.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        if line["id"] == "potato":
            line["text"] = text
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def sweep_all(project):
    """Sweep the folders of all artefacts as if nothing had an hour."""
    recipes, store = plan.graph(project.settings), Tools(project.settings).store
    for recipe in recipes.values():
        for corpus in project.settings.corpora if recipe.partitioned else [None]:
            if (artefact := store.find(recipe.key, corpus)) is not None:
                for path in unused(store, artefact, 1e-9):
                    path.unlink()


# What it gives


def test_without_an_authorizer_nobody_is_told_apart(opened):
    with pytest.raises(ConfigError, match="expected settings that say who may see what"):
        opened.as_principal("ann")


def test_passages_are_slices_of_their_documents_with_what_is_known_of_them(opened):
    found = opened.search(QUESTION, explain=True)
    assert found.method and found.method_reason and found.version == opened.version and not found.empty_reason
    for passage in found.passages:
        document = opened.document(passage.corpus, passage.document)
        (span,) = passage.spans
        assert passage.text == document.text[span.start : span.end] and passage.title == document.title
        assert passage.explanation and (passage.start, passage.end) == (span.start, span.end)
    assert found.passages[0].document == "potato"
    assert json.loads(json.dumps(found.to_json()))["passages"][0]["document"] == "potato"
    assert 0 < sum(len(p.text) for p in found.passages) <= opened.settings.budget


def test_dagster_is_not_imported(sample_project):
    code = (
        f"import sys, mog_assets; p = mog_assets.open({str(sample_project.config)!r}); p.search({QUESTION!r}); "
        "p.ask('Why is the sky blue?'); p.close(); print('dagster' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_words_are_searched_with_nothing_but_what_every_installation_has(sample_project):
    requirements = [Requirement(text) for text in metadata.requires("mog-assets")]
    needed = {canonicalize_name(r.name) for r in requirements if r.marker is None}
    extra = {canonicalize_name(r.name) for r in requirements} - needed - {"mog-assets"}
    absent = [
        module
        for module, packages in metadata.packages_distributions().items()
        if extra.intersection(map(canonicalize_name, packages))
    ]
    assert {"dagster", "lightgbm", "openai", "pandas", "scipy", "torch"} <= {*absent}
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({absent!r})); from mog_assets.cli import main; "
        f"main(['search', {QUESTION!r}, '--method', 'fixed-2', '--config', {str(sample_project.config)!r}])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "1. " in printed


def test_many_questions_get_what_each_gets_alone_in_any_thread(opened):
    alone = [opened.search(question, method="mix") for question in QUESTIONS]
    places = [[p.spans for p in found.passages] for found in alone]
    assert [[p.spans for p in f.passages] for f in opened.search_many(QUESTIONS, method="mix")] == places
    with ThreadPoolExecutor(8) as pool:
        again = list(pool.map(lambda question: opened.search(question, method="mix"), QUESTIONS * 6))
    assert again == alone * 6


@pytest.mark.parts("mogg-paper", "hop-1")
@pytest.mark.parametrize(
    "method", ["auto", "mix", "fixed-2", "dense-1", "hybrid:fixed-1", "hop-1", "mogg-paper+topics"]
)
def test_passages_of_some_corpora_only(opened, method):
    found = opened.search(QUESTION, method=method, corpora=["sky", "workshop"], budget=20_000)
    assert found.passages and {p.corpus for p in found.passages} <= {"sky", "workshop"}
    named = {"corpus": ["sky", "workshop"]}
    assert opened.search(QUESTION, method=method, where=named, budget=20_000).passages == found.passages


def test_an_answer_rests_on_passages_and_tells_its_steps(opened):
    steps = []
    question = "For how many years does white rot of onions stay in the ground?"
    told = opened.ask(question, on_event=lambda name, what: steps.append((name, json.loads(json.dumps(what)))))
    assert told.answer and told.passages and not told.failure and told.auto in opened.methods
    assert {passage.score for passage in told.passages} == {None}
    assert [name for name, _ in steps] == ["passages", "answer"]
    assert [p["document"] for p in steps[0][1]["passages"]] == [p.document for p in told.passages]
    assert steps[1][1]["text"] == told.answer


@pytest.mark.whole
def test_a_way_with_rounds_tells_each(opened):
    names = []
    opened.ask(QUESTION, method="mogg-paper+topics → at-rag", on_event=lambda name, what: names.append(name))
    assert names[:3] == ["passages", "thought", "answer"] and "grade" in names


def test_sentences_of_a_passage_are_weighed_by_the_question(opened):
    passage = opened.search(QUESTION).passages[0]
    found = opened.sentences(QUESTION, passage)
    assert "".join(passage.text[start:end] for start, end, _ in found) == passage.text
    assert all(-1.001 <= value <= 1.001 for *_, value in found)
    # What is asked is most like itself.
    start, end, _ = found[len(found) // 2]
    again = opened.sentences(passage.text[start:end], passage)
    assert max(again, key=lambda row: row[2])[:2] == (start, end)


@pytest.mark.whole
def test_the_project_tells_what_can_be_asked(opened):
    assert {"auto", "fused", "mog", "mix", "dense-2", "mogg-paper", "mogg-paper+topics"} < set(opened.methods)
    assert not {"gold", "random", "oracle-paper"} & set(opened.methods)
    assert opened.ways[0] == "cot" and [info.name for info in opened.corpora] == CORPORA
    for info in opened.corpora:
        assert info.documents > 0 < info.pieces and info.characters > 10_000 and "title" in info.fields


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda p: p.search(" "), ConfigError, "question: expected a question, got white space"),
        (lambda p: p.search("x" * 10_001), ConfigError, "at most 10000 characters, got 10001"),
        (lambda p: p.search(QUESTION, budget=0), ConfigError, "budget: expected an integer of at least 1, which"),
        (lambda p: p.search(QUESTION, k=True), ConfigError, "k: expected an integer of at least 1, got True"),
        (lambda p: p.search(QUESTION, method="fixed-9"), ConfigError, "got 'fixed-9'"),
        (lambda p: p.search(QUESTION, corpora=["moon"]), NotFound, "garden, workshop, sky"),
        (lambda p: p.search(QUESTION, corpora="sky"), ConfigError, "expected a list of names, got 'sky'"),
        (lambda p: p.search_many(QUESTION), ConfigError, "expected a list of questions"),
        (lambda p: p.search(QUESTION, method="dense-1", explain=True), ConfigError, "which dense-1 is not"),
        (lambda p: p.document("sky", "../potato"), NotFound, "id of a document of corpus sky, got '../potato'"),
        (lambda p: p.ask(QUESTION, method="guess"), ConfigError, "expected one of cot"),
    ],
)
def test_wrong_arguments_are_named_with_what_was_expected(opened, call, kind, said):
    with pytest.raises(kind) as raised:
        call(opened)
    assert said in str(raised.value)


def test_a_project_that_was_not_built_says_what_to_do(tmp_path, make_project, write_documents):
    write_documents(tmp_path / "c.jsonl", [("a", "A text.")])
    project = make_project(tmp_path, {"corpora": {"c": {"path": "c.jsonl"}}})
    with pytest.raises(MissingArtefact, match="run `mog run`"):
        mog_assets.open(project.config)
    with pytest.raises(ConfigError, match=r"corpora: expected names of corpora \(c\), got 'd'"):
        mog_assets.open(project.config, corpora=["d"])


# While runs replace artefacts


def potato(project):
    return project.document("garden", "potato").text


@pytest.mark.whole
def test_new_artefacts_are_taken_over_and_no_question_sees_a_mixture(copied_project):
    """Two threads ask without a pause while a corpus is rebuilt an artefact at a time."""
    old = "Potatoes are planted in spring. " * 40
    new = "Potatoes grow. They are planted 12 cm deep, says the new text. " * 30
    edit(copied_project, old)
    rebuild(copied_project, "garden")
    seen, wrong, stop = set(), [], threading.Event()
    with mog_assets.open(copied_project.config, refresh=REFRESH) as project:
        first = project.version

        def ask():
            while not stop.is_set():
                try:
                    found = project.search(QUESTION, method="fused")
                    for passage in found.passages:
                        if passage.document == "potato":
                            seen.add((found.version, passage.text in old, passage.text in new))
                except Exception as error:
                    wrong.append(error)

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        edit(copied_project, new)
        rebuild(copied_project, "garden")
        until(lambda: project.version != first)
        time.sleep(0.5)
        stop.set()
        for thread in threads:
            thread.join()
        assert not wrong and project.trouble == ""
        assert {(old, new) for version, old, new in seen if version == first} == {(True, False)}
        # What needs longer to make, such as the sentence graph, came with versions of their own.
        assert {(old, new) for version, old, new in seen if version != first} == {(False, True)}
        assert potato(project) == new


def test_half_a_run_is_not_taken_over(copied_project):
    with mog_assets.open(copied_project.config, refresh=REFRESH) as project:
        first, before = project.version, potato(project)
        edit(copied_project, "Potatoes are planted deep. ")
        rebuild(copied_project, "garden", until="chunks/level_1")
        time.sleep(5 * REFRESH)
        assert (project.version, potato(project)) == (first, before)
        assert project.search(QUESTION).passages
        # So is all of a corpus without the statistics of all corpora.
        rebuild(copied_project, "garden", without=["statistics"])
        time.sleep(5 * REFRESH)
        assert (project.version, potato(project)) == (first, before)
        rebuild(copied_project, "garden")
        until(lambda: project.version != first)
        assert potato(project) == "Potatoes are planted deep. " and project.trouble == ""


def test_a_home_without_a_set_whose_run_was_stopped_half_way_is_refused_with_the_remedy(copied_project):
    edit(copied_project, "Potatoes are planted deep. ")
    rebuild(copied_project, "garden", until="chunks/level_1")
    shutil.rmtree(copied_project.home / "sets")
    with pytest.raises(MogError, match="of corpus garden was made from another version of .*run `mog run`"):
        mog_assets.open(copied_project.config)


@pytest.mark.whole
def test_what_is_out_of_date_and_not_needed_is_not_there(copied_project):
    edit(copied_project, "Potatoes are planted deep. ")
    rebuild(copied_project, "garden", until="mentions", without=["sentence_graph"])
    with mog_assets.open(copied_project.config, refresh=None) as project:
        assert "mix" in project.methods and "mogg-paper" not in project.methods
        with pytest.raises(MissingArtefact, match="sentence_graph"):
            project.search(QUESTION, method="hop-1")


def test_a_damaged_new_model_leaves_the_old_one_in_use(copied_project):
    tools = Tools(copied_project.settings)
    with mog_assets.open(copied_project.config, refresh=REFRESH) as project:
        before = project.search(QUESTION)
        damage.flip(tools.store.read("method").path("method.json"))
        edit(copied_project, "Potatoes are planted deep. ")
        rebuild(copied_project, "garden")
        until(lambda: project.trouble)
        assert "method" in project.trouble and project.search(QUESTION) == before


def test_what_an_open_project_reads_stays_as_long_as_it_is_open(copied_project):
    """Whatever runs and sweeps do, and whatever it has not opened yet."""
    with mog_assets.open(copied_project.config, refresh=None) as project:
        first, before = project.version, potato(project)
        for number in range(2):
            edit(copied_project, f"Potatoes are planted {number} cm deep. ")
            rebuild(copied_project, "garden")
        store = Tools(copied_project.settings).store
        documents = store.read("documents", "garden")
        assert unused(store, documents, 60) == []
        now = project._generations.latest()
        held = [stored.path(name) for stored in now.artefacts.artefacts.values() for name in stored.names()]
        for path in unused(store, documents, 0):
            assert path not in held
            path.unlink()
        assert all(path.exists() for path in held)
        assert (project.version, potato(project)) == (first, before) and project.search(QUESTION).passages
        # Too late: nobody said for long that this is read.
        path = now.artefacts.path
        os.utime(path, (0, 0))
        sweep_all(copied_project)
        assert not path.exists() and not all(path.exists() for path in held)
        assert not now.artefacts.touch()


def test_what_was_read_too_long_ago_is_opened_again(copied_project, monkeypatch):
    monkeypatch.setattr(generations, "TOUCH", 0.2)
    with mog_assets.open(copied_project.config, refresh=None) as project:
        first = project.version
        edit(copied_project, "Potatoes are planted deep. ")
        rebuild(copied_project, "garden")
        assert project.version == first
        project._generations.latest().artefacts.path.unlink()
        until(lambda: project.version != first)
        assert potato(project) == "Potatoes are planted deep. "


@pytest.mark.parts("paper", "mog")
@pytest.mark.parametrize(
    "method", ["auto", "fused", "mog", "mix", "fixed-2", "dense-1", "hybrid:mog-paper", "mogg-paper+topics"]
)
def test_a_filter_without_a_hit_gives_no_passage_by_any_method(opened, method):
    for found in opened.search_many(QUESTIONS[:2], method=method, where={"id": "nope"}):
        assert found.passages == [] and "asked for" in found.empty_reason


def test_vectors_of_another_encoder_are_refused(copied_project):
    settings = copied_project.settings
    other = settings.model_copy(update={"encoder": settings.encoder.model_copy(update={"pooling": "cls"})})
    with pytest.raises(MogError, match="embeddings/level_1 of corpus garden: expected vectors of the encoder"):
        mog_assets.open(other)


@pytest.mark.full
def test_what_could_not_be_opened_once_is_tried_again(copied_project, monkeypatch):
    monkeypatch.setattr(generations, "_PAUSE", 0.3)
    with mog_assets.open(copied_project.config, refresh=REFRESH) as project:
        first, real, tries = project.version, generations.open_set, []

        def full(*arguments):
            tries.append(arguments)
            if len(tries) == 1:
                raise OSError(28, "No space left on device")
            return real(*arguments)

        monkeypatch.setattr(generations, "open_set", full)
        edit(copied_project, "Potatoes are planted deep. ")
        rebuild(copied_project, "garden")
        until(lambda: project.version != first)
        assert len(tries) > 1 and project.trouble == ""


def test_a_closed_project_says_so(copied_project):
    project = mog_assets.open(copied_project.config, refresh=None)
    project.close()
    with pytest.raises(MogError, match="the project is closed"):
        project.search(QUESTION)


# The page


CODE = [*blocks(ROOT / "docs" / "python.md", "python"), *blocks(ROOT / "README.md", "python")]


@pytest.mark.parametrize("body", CODE, ids=range(len(CODE)))
def test_code_of_the_page_runs(body, sample_project, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(copy_folder(sample_project.folder, tmp_path / "project"))
    shutil.move("neural.yaml", "mog.yaml")
    exec(compile(body, "docs/python.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    shown = [line.partition("  # ")[2] for line in body.splitlines() if "print(" in line and "  # " in line]
    assert [line for line in printed if line in shown] == shown
