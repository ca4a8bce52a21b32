"""`mog compare`, and what is compared with the evaluation before: by document."""

from types import SimpleNamespace

from by_document import EFFECTS, measured
from shared import called, one_line

from mog_assets.plugins.report import history
from mog_assets.plugins.report.comparing import side_by_side


def test_a_project_compared_with_itself_differs_in_nothing(sample_project, tmp_path):
    page = tmp_path / "page.md"
    result = called("compare", sample_project.config, sample_project.config, "--measure", "ER", "--to", page)
    assert result.exit_code == 0
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| fused |")]
    assert len(rows) == 1 and "+0.000 [+0.000, +0.000], 1.000" in rows[0]
    result = called("compare", sample_project.config, sample_project.config, "--measure", "accuracy")
    assert result.exit_code == 1 and "expected measures of" in one_line(result.stderr)


def test_projects_without_questions_cannot_be_compared(tmp_path, make_project, write_documents):
    notes = write_documents(tmp_path / "notes.jsonl", [("a", "Bread dough rises.")])
    project = make_project(tmp_path, {"corpora": {"notes": {"path": str(notes)}}})
    result = called("compare", project.config, project.config)
    assert result.exit_code == 2 and "no question set with a test split" in one_line(result.stderr)


def test_two_projects_are_compared_by_document():
    ours, theirs = measured(0 * EFFECTS), measured(EFFECTS)
    mog = side_by_side(ours, theirs, ["ER"], 0)["s, dev"].set_index("cell").loc["mog-paper"]
    assert (mog["n"], mog["documents"]) == (90, 9) and mog["p"] > 0.05
    apart = ours.assign(document=ours["question"])
    assert side_by_side(apart, theirs, ["ER"], 0)["s, dev"].set_index("cell").loc["mog-paper", "p"] < 0.001


def test_command_compare_names_documents(tmp_path, monkeypatch):
    tables = {"a": measured(0 * EFFECTS), "b": measured(EFFECTS)}

    class Store:
        def __init__(self, home):
            self.home = home

        def read(self, key):
            path = tmp_path / f"{self.home}.parquet"
            tables[self.home].to_parquet(path)
            return SimpleNamespace(path=lambda name: path)

    monkeypatch.setattr(
        "mog_assets.plugins.report.commands.config.load", lambda path: SimpleNamespace(home=path, seed=0, tests=True)
    )
    monkeypatch.setattr("mog_assets.resources.store.Store", Store)
    shown = called("compare", "a", "b", "--measure", "ER")
    assert shown.exit_code == 0 and "90 questions on 9 documents" in shown.stdout, shown.output


def test_a_drop_on_a_few_documents_raises_no_alarm():
    now, before = history.leading(measured(0 * EFFECTS)), history.leading(measured(EFFECTS))
    found = history.compare(now, before, 0)
    assert not found["dropped"].any() and history.drops(found) == []
    assert set(found["documents"]) == {9}
    apart = now.assign(document=now["question"])
    (said,) = history.drops(history.compare(apart, before, 0))
    assert "on 90 questions on 90 documents" in said


def test_an_accepted_evaluation_that_does_not_know_documents_is_compared_with():
    before = history.leading(measured(EFFECTS)).drop(columns="document")
    assert not history.compare(history.leading(measured(0 * EFFECTS)), before, 0)["dropped"].any()
