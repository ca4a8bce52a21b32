"""What `mog questions`, `mog run` and `mog scores` say of questions: what was found, and who made them."""

import csv
import json
import re
from types import SimpleNamespace

import pandas as pd
import pytest
from chat_server import ChatServer
from click.testing import CliRunner
from shared import quiet_instance

from mog_assets.cli import main
from mog_assets.resources.store import Store

pytestmark = pytest.mark.full

THINGS = {
    "fox": "voles and the eggs of larks", "otter": "crayfish below the weir", "owl": "mice in the old barn",
    "swan": "pondweed of the mill", "beaver": "bark of young willows", "lynx": "hares on the ridge",
    "crane": "acorns under the oaks", "pike": "perch between the reeds", "moose": "twigs of the birches",
    "robin": "berries of the rowan", "seal": "cod from the deep", "stork": "locusts in dry summers",
}  # fmt: skip
HOUR = "It wakes when others sleep, and nobody sees where it goes."


def text_of(name):
    return f"The {name} is known to all who walk here. In winter it eats {THINGS[name]}. {HOUR}"


def quote_of(name):
    return f"In winter it eats {THINGS[name]}."


def called(*arguments):
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    return result


def long_text_of(name):
    """With much that is said of the others, so that methods find the evidence at different places."""
    names = list(THINGS)
    said = [f"The {name} met the {names[i % 12]} at stone {i}, and both of them went on to eat." for i in range(24)]
    at = 2 * names.index(name)
    return " ".join([*said[:at], text_of(name), *said[at:]])


def write_csv(path, rows):
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, ("id", "question", "quote", "doc", "answer"), restval="")
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(scope="module")
def read(tmp_path_factory, make_project, write_documents):
    """A project whose questions were read: without splits, two without their evidence, one not readable."""
    folder = tmp_path_factory.mktemp("read")
    write_documents(folder / "wild.jsonl", [(name, text_of(name)) for name in THINGS])
    rows = [{"id": f"q-{n}", "question": f"What does the {n} eat?", "quote": quote_of(n)} for n in THINGS]
    rows += [
        {"id": "lost", "question": "What does the yeti eat?", "quote": "In winter the yeti eats snow."},
        {
            "id": "away",
            "question": "What does \x1b[2J the elk eat?",
            "quote": "Grass.",
            "doc": "elk",
            "answer": "grass",
        },
        {"id": "blank", "question": "", "quote": quote_of("fox")},
    ]
    write_csv(folder / "faq.csv", rows)
    lines = [{"id": f"a-{n}", "question": f"Where is the {n}?", "split": "test", "answer": "here"} for n in THINGS]
    (folder / "told.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    project = make_project(
        folder,
        {
            "corpora": {"wild": {"path": "wild.jsonl"}},
            "question_sets": {
                "faq": {"path": "faq.csv", "corpora": ["wild"]},
                "told": {"path": "told.jsonl", "corpora": ["wild"], "test": ["test"]},
            },
            "levels": 2,
            "buckets": 1,
        },
    )
    quiet_instance(project.home)
    project.result = called("run", "--config", project.config, "--select", "documents", "--select", "questions")
    assert project.result.exit_code == 0, project.result.output
    return project


def test_a_run_says_what_was_found_of_questions(read):
    printed = read.result.stdout.splitlines()
    faq = [line for line in printed if line.startswith("faq: ")]
    divided, skipped, lost = faq[:3]
    used = re.fullmatch(
        r"faq: 14 questions without a split were divided by document: (\d+) questions? on (\d+) documents? "
        r"to train on, (\d+) on (\d+) to measure with\.",
        divided,
    )
    assert used and int(used[1]) + int(used[3]) == 14
    assert skipped.startswith("faq: 1 question was skipped; the first: faq.csv:") and "question: expected" in skipped
    assert lost.startswith("faq: the evidence of 2 questions was not found; the first: faq.csv:14: ")
    assert lost.endswith("; `mog questions --lost` lists all.")
    assert (
        "told: 12 of the 12 questions to measure with cannot measure retrieval: neither a place nor a document that "
        "answers them is known." in printed
    )


def test_questions_lists_what_was_found_of_each_and_how(read):
    rows = json.loads(called("questions", "--config", read.config, "--json").stdout)
    assert [row["question set"] for row in rows] == ["faq"] * 15 + ["told"] * 12
    found = {row["id"]: row for row in rows}
    fox = found["q-fox"]
    assert (fox["level"], fox["found"], fox["places"], fox["score"]) == ("spans", "exact", 1, 1.0)
    assert fox["question"] == "What does the fox eat?" and fox["split"] in ("train", "test")
    assert fox["not found"] == fox["skipped"] == ""
    assert found["lost"]["level"] == "none" and "yeti" in found["lost"]["not found"]
    assert found["away"]["level"] == "answer" and "elk" in found["away"]["not found"]
    assert found[""]["skipped"].startswith("faq.csv:16: question:") and found[""]["score"] is None
    lost = json.loads(called("questions", "--config", read.config, "--set", "faq", "--lost", "--json").stdout)
    assert [row["id"] for row in lost] == ["lost", "away", ""]


def test_questions_prints_tables_that_cannot_move_the_cursor(read):
    printed = called("questions", "--config", read.config).stdout
    assert "faq: 15 questions" in printed and "told: 12 questions" in printed
    assert "q-otter" in printed and "exact" in printed and "\x1b" not in printed
    assert called("questions", "--config", read.config, "--set", "told", "--lost").stdout == (
        "told: all evidence was found.\n"
    )


def test_questions_of_a_set_that_is_not_there_or_not_read_are_refused(read, tmp_path, make_project):
    result = called("questions", "--config", read.config, "--set", "faqs")
    assert result.exit_code == 2 and "expected a question set (faq, told), got 'faqs'" in result.stderr
    new = {"corpora": {"wild": {"path": str(read.folder / "wild.jsonl")}}}
    result = called("questions", "--config", make_project(tmp_path / "none", new).config)
    assert result.exit_code == 2 and "no question set" in result.stderr
    new["question_sets"] = {"faq": {"path": str(read.folder / "faq.csv"), "corpora": ["wild"]}}
    result = called("questions", "--config", make_project(tmp_path / "new", new).config)
    assert result.exit_code == 1 and "mog run" in result.stderr


def test_questions_that_are_given_with_all_that_is_needed_are_not_spoken_of(sample_project):
    printed = called("scores", "--config", sample_project.config).stdout
    assert not [line for line in printed.splitlines() if line.startswith("samples: ") and "questions on" not in line]


# Generated questions next to real ones


def written_by_a_model(messages):
    """A question whose words stand in other places, too, so that methods differ."""
    animal = re.search(r"The (\w+) is known", messages[-1]["content"])[1]
    question = f"Where do others go to eat when they met the {animal}?"
    return json.dumps({"question": question, "answer": "nobody sees", "quote": HOUR})


@pytest.fixture(scope="module")
def measured(tmp_path_factory, make_project, write_documents):
    """A project that was measured with questions of people and with those of a model."""
    folder = tmp_path_factory.mktemp("measured")
    write_documents(folder / "wild.jsonl", [(name, long_text_of(name)) for name in THINGS])
    write_csv(folder / "faq.csv", [{"question": f"What does the {n} eat?", "quote": quote_of(n)} for n in THINGS])
    project = make_project(
        folder,
        {
            "corpora": {"wild": {"path": "wild.jsonl"}},
            # Not the order in which they are shown.
            "question_sets": {
                "made": {"source": "generated", "corpora": ["wild"], "train": [], "test": ["train", "test"]},
                "faq": {"path": "faq.csv", "corpora": ["wild"], "test": ["test"]},
            },
            "generation": {"per_document": 1},
            "llm": {"model": "double", "price_in": 1.0, "price_out": 1.0},
            "methods": ["fixed-1", "fixed-2", "dense-1", "dense-2", "fused"],
            "answering": {"methods": []},
            "levels": 2,
            "finest_chars": 200,
            "buckets": 1,
        },
    )
    quiet_instance(project.home)
    with ChatServer(written_by_a_model) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", server.url)
        patch.setenv("OPENAI_API_KEY", "sk-loopback")
        result = called("run", "--config", project.config)
    assert result.exit_code == 0, result.output
    return SimpleNamespace(**vars(project), result=result)


def test_generated_questions_are_printed_after_real_ones_and_called_so(measured):
    printed = measured.result.stdout
    real = printed.index("faq: 12 questions on 12 documents, value")
    assert printed.index("Use `") < real < printed.index("made, by generated questions: ")
    assert re.search(r"made: \d+ questions generated by a language model on \d+ documents", " ".join(printed.split()))
    assert "With 12 questions on 12 documents, a difference in ER" in printed or "are too few to show" in printed


def test_generated_and_real_questions_are_compared_below_the_leaderboards(measured):
    for printed in (measured.result.stdout, called("scores", "--config", measured.config).stdout):
        (line,) = (line for line in printed.splitlines() if "generated questions rank" in line.lower())
        assert "the 5 methods" in line
        assert printed.index("made, by generated questions") < printed.index(line) < printed.index("`mog scores --all`")
    (row,) = pd.read_parquet(Store(measured.home).read("scores").path("agreement.parquet")).to_dict("records")
    assert (row["question_set"], row["made_question_set"]) == ("faq", "made")
    assert row["methods"] == 5 and -1 <= row["tau_low"] <= row["tau"] <= row["tau_high"] <= 1


@pytest.mark.whole
def test_the_page_has_generated_questions_after_real_ones(measured):
    page = Store(measured.home).read("report").path("report.html").read_text(encoding="utf-8")
    first, second = re.findall(r'<h3 id="board-\d+">(.*?)</h3>', page)
    assert first.startswith("faq (test), 12 questions")
    assert second.startswith("made (test), generated by a language model")
    assert page.index('id="board-2"') < page.index('id="agreement"') < page.index('id="history"')
