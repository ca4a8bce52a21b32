"""A corpus in several languages, and questions that are typed exactly, quoted or misspelt."""

import shutil

import pytest
from click.testing import CliRunner

import mog_assets
from mog_assets import config
from mog_assets.build.tools import Tools
from mog_assets.cli import main
from mog_assets.resources.store import Store
from mog_assets.search.retrieval import Retrieval

TEXTS = {
    "heron.txt": "The grey heron stands in shallow water and waits for fish. It nests in tall trees.",
    "castle.txt": "The castle was built in 1320 by a duke. Its keep is older than the town walls.",
    "git.txt": "Branches are kept with --rebase-merges. A rebase without it makes history a line of commits.",
    "merges.txt": "A merge joins two branches. Rebase moves commits, and merges are lost when you rebase a branch.",
    "database.txt": "The database is locked when another process writes to it. Wait, or set a timeout.",
    "index.txt": "merge.autoStash\nmerge.tool\nrebase.autoStash\nrebase.stat\nrebase.updateRefs\nrebase.backend",
    "news.txt": "rebase.autoStash was new in 2.6; rebase.autoStash=true is often set. Use rebase.autoStash with care.",
    "config.txt": "Options of commands.\n\nrebase.stat\n\nShows what changed upstream.\n\nrebase.autoStash\n\nWhen "
    "true, an entry is made before the operation begins, and applied after it.\n\nrebase.backend\n\nApply",
    "graureiher.txt": "Der Graureiher steht im seichten Wasser und wartet auf Fische. Er brütet auf hohen Bäumen.",
    "burg.txt": "Die Wasserburg wurde 1320 von einem Herzog erbaut. Ihre Burgmauern sind älter als die der Stadt.",
    "zhongguo.txt": "苍鹭站在池塘边的浅水里,一动不动地等鱼。它的巢在高大的松树上。这座石桥建于宋代,长约三百米。",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory, make_project, materialise_project):
    """A project of these documents."""
    folder = tmp_path_factory.mktemp("languages")
    (folder / "docs").mkdir()
    for name, text in TEXTS.items():
        (folder / "docs" / name).write_text(text, encoding="utf-8")
    settings = {"corpora": {"notes": {"path": "docs"}}, "methods": ["fused", "fixed-1"], "levels": 2, "buckets": 4}
    settings["answering"] = {"reader": "neural", "methods": []}
    made = make_project(folder, settings)
    assert materialise_project(made.settings).failures == []
    return made


@pytest.fixture(scope="module")
def opened(project):
    with mog_assets.open(project.config, refresh=None) as one:
        yield one


def test_every_document_has_its_language_and_the_command_says_which(project, opened):
    (corpus,) = opened.corpora
    assert corpus.languages == {"English": 7, "undecided": 1, "German": 2, "Chinese": 1}


@pytest.mark.whole
def test_doctor_says_which_parts_do_not_know_the_languages_of_the_documents(project):
    from mog_assets.plugins.upkeep.doctor import languages

    (finding,) = languages(project.settings)
    assert finding.state == "warning" and "German 2" in finding.found and "know English alone" in finding.found
    assert "questions in German, Chinese are searched for by their words and answered with passages" in finding.found


@pytest.mark.parametrize(
    ("question", "doc"),
    [
        ("What does a heron wait for?", "heron.txt"),
        ("Worauf wartet ein Reiher im Wasser?", "graureiher.txt"),
        # Parts and forms of words.
        ("Wer hat die Burgen gebaut?", "burg.txt"),
        ("Mauer einer Burg", "burg.txt"),
        ("石桥有多长?", "zhongguo.txt"),
    ],
)
@pytest.mark.parametrize("method", ["fused", "fixed-1"])
def test_a_question_finds_a_document_of_its_own_language(opened, question, doc, method):
    assert opened.search(question, method=method).passages[0].document == doc


def test_a_misspelt_question_finds_what_it_means_and_says_so(project, opened):
    result = opened.search("datbase is locekd", method="fused")
    assert result.passages[0].document == "database.txt"
    assert result.corrections == {"datbase": "database", "locekd": "locked"}
    command = CliRunner().invoke(main, ["search", "datbase is locekd", "--config", str(project.config)])
    assert "no document has “datbase”: searched for “database”" in command.stderr


def test_what_the_encoder_knows_is_decided_by_the_language_of_each_question(project):
    questions = [
        "What does a heron wait for?",
        "Worauf wartet ein Reiher im Wasser?",
        "石桥有多长?",
        # No document is in French.
        "Quels poissons le héron attend-il dans cette rivière ?",
    ]
    tools = Tools(project.settings)
    retrieval = Retrieval.open(tools, tools.store.read, ["notes"]).with_queries(questions)
    english, german, chinese, french = retrieval.read.candidates.vocabulary.tolist()
    assert english > 0.55 and german < 0.4 and chinese < 0.05 and french < 0.4
    # As if no other language were beside it.
    assert (
        english
        == Retrieval.open(tools, tools.store.read, ["notes"])
        .with_queries(questions[:1])
        .read.candidates.vocabulary.item()
    )


@pytest.mark.parametrize("typed", ["rebase.autoStash", "rebase.autostash()"])
def test_a_name_in_code_finds_its_definition_before_lists_and_mentions(opened, typed):
    assert [passage.document for passage in opened.search(typed, method="fused").passages][:1] == ["config.txt"]


def test_one_option_finds_the_piece_that_has_it(opened):
    result = opened.search("--rebase-merges", method="fused", explain=True)
    assert result.passages[0].document == "git.txt" and "as it is typed" in result.passages[0].explanation


@pytest.mark.parametrize(
    ("question", "docs"),
    [
        ('"two branches" rebase', {"merges.txt"}),
        ('who says "moves COMMITS"?', {"merges.txt"}),
        ("„im seichten Wasser“ Fische", {"graureiher.txt"}),
        # In the order in which they stand.
        ('"branches two"', set()),
        # Whole words.
        ('"erge joins"', set()),
        ('"the keep" "town walls"', set()),
        ('"its keep" "town walls"', {"castle.txt"}),
        ("「高大的松树」", {"zhongguo.txt"}),
    ],
)
def test_what_is_quoted_stands_in_every_document_that_is_found(opened, question, docs):
    result = opened.search(question, method="fused")
    assert {passage.document for passage in result.passages} == docs
    assert docs or "as it stands" in result.empty_reason


def test_many_questions_are_each_asked_of_what_they_quote(opened):
    results = opened.search_many(['"two branches"', "heron"], method="fused")
    assert [result.passages[0].document for result in results] == ["merges.txt", "heron.txt"]
    assert len(results[1].passages) > 1


def test_the_reader_shows_words_of_english_texts_alone(opened):
    english = opened.ask("When was the castle built?")
    assert english.answer == "1320" or english.likeliest is not None
    german = opened.ask("Wann wurde die Wasserburg erbaut?")
    assert german.passages[0].document == "burg.txt" and german.answer is None and german.likeliest is None


def test_another_language_analyses_documents_anew_and_splits_and_encodes_nothing(project, materialise_project):
    folder = project.config.parent.parent / "french"
    shutil.copytree(project.config.parent, folder)
    path = folder / project.config.name
    path.write_text(path.read_text(encoding="utf-8").replace("path: docs", "path: docs\n    language: fr"), "utf-8")
    settings = config.load(path)
    assert settings.corpora["notes"].language == "fr"
    report = materialise_project(settings)
    assert report.failures == []
    store = Store(settings.home)
    assert store.read("documents", "notes").manifest.info["languages"] == {"fr": 11}
    assert store.read("tokens", "notes").manifest.info["recomputed"]["documents tokenised"] == 11
    assert store.read("embeddings/level_1", "notes").manifest.info["recomputed"]["texts encoded"] == 0
