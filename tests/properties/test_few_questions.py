"""Whatever few questions and documents there are, a project is built and answers questions."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from incremental import IN_MEMORY, encoder, nothing_is_drawn  # noqa: F401 (fixtures)
from shared import examples

import mog_assets
from mog_assets import config
from mog_assets.build import plan
from mog_assets.build.materialising import materialise
from mog_assets.build.tools import Tools
from mog_assets.evaluate.choice import UNTRAINED, choose
from mog_assets.questions.sets import TEST, TRAIN, Question, Relevant, divided
from mog_assets.resources.errors import MogError

TEXTS = (
    "The grey heron stands still in shallow water. It waits for a fish.",
    "Soap must cure. It takes four weeks in a dry room.",
    "窯は夕方に火を入れる。朝まで見守る。",  # noqa: RUF001 (Japanese)
    "Der Otter schwimmt in der Dämmerung. Er frisst Fische und Krebse.",
)
QUOTES = [*(text[: len(text) // 2] for text in TEXTS), "these words are in no document at all, nowhere", ""]
# A question has any of what may be known of its answer.
ROWS = st.fixed_dictionaries(
    {"question": st.sampled_from(["How long must soap cure?", "Who eats fish?", "窯はいつ?", "What about it?"])},  # noqa: RUF001
    optional={
        "quote": st.sampled_from(QUOTES),
        "docs": st.sampled_from(["0.md", "1.md|2.md", "nowhere.md", "0.md=0"]),
        "doc": st.sampled_from(["0.md", "nowhere.md"]),
        "answer": st.sampled_from(["four weeks", "fish", "no text has it", "A"]),
        "split": st.sampled_from(["train", "test", "other"]),
        "options": st.just('{"A": "four weeks", "B": "fish"}'),
    },
)
SPREADSHEET = [
    {"question": "How long must soap cure?", "answer": "four weeks", "quote": "It takes four weeks in a dry room"},
    {"question": "Who waits for a fish?", "quote": "The grey heron stands still in shallow water"},
]


def built(folder, encoder, documents, rows):  # noqa: F811
    """A project of these documents and questions, built without Dagster; the choice of its ranking."""
    (folder / "docs").mkdir()
    for i, text in enumerate(documents):
        (folder / "docs" / f"{i}.md").write_text(text, encoding="utf-8")
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    named = {row.get("split") for row in rows}
    splits = {use: [use] for use in ("train", "test") if use in named or named <= {None}}
    splits |= {"test": ["other"]} if named == {"other"} else {}
    sets = {"few": {"path": "questions.jsonl", "corpora": ["docs"], **splits}}
    values = {"home": "home", "corpora": {"docs": {"path": "docs"}}, "levels": 2, "buckets": 2, "question_sets": sets}
    values["answering"] = {"reader": "extractive", "methods": ["one-step"]}
    (folder / "mog.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    made = config.load(folder / "mog.yaml")
    tools, recipes = Tools(made), plan.graph(made)
    vars(tools)["encoder"] = encoder
    for recipe in recipes.values():
        if not recipe.on_demand:
            outcome = materialise(recipe, "docs" if recipe.partitioned else None, tools, recipes)
            assert outcome.artefact is not None, outcome.faults
            assert not any(check.blocking and check.name in outcome.faults for check in recipe.checks), outcome.faults
            assert recipe.key != "tuned" or ("new_model_is_used" in outcome.faults) == (
                "untrained" in outcome.artefact.manifest.info
            )
    return folder / "mog.yaml", tools.store.read("method", None).manifest.info


@settings(max_examples=examples(2), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(TEXTS), max_size=6), st.lists(ROWS, max_size=12))
@example(TEXTS[:2], SPREADSHEET)
@example(TEXTS[:2], SPREADSHEET[:1])
@example(TEXTS[1:2] * 3, SPREADSHEET[:1] * 3)
@example(TEXTS[:2], [{"question": "Who?", "docs": "nowhere.md"}, {"question": "When?", "quote": QUOTES[-2]}])
def test_a_project_of_few_questions_is_built_and_answers(encoder, documents, rows):  # noqa: F811
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        if not documents:
            with pytest.raises(MogError, match="expected at least one usable document, found none"):
                built(Path(folder), encoder, documents, rows)
            return
        file, chosen = built(Path(folder), encoder, documents, rows)
        with mog_assets.open(file) as project:
            found = project.search("When does soap cure?")
            assert found.method == chosen["method"]
            assert chosen["method"] in project.methods
            untrained = {"mix", "tuned"} - set(project.methods) if project.settings.trains else set()
            if untrained:
                # What asks for one by name is told why there is none.
                with pytest.raises(MogError, match=r"is not trained: question_sets: expected"):
                    project.search("When does soap cure?", method=min(untrained))
            if len(untrained) == 2:
                assert chosen["method"] == UNTRAINED and "too little to train others on" in chosen["why"]


DOCUMENTS = st.sampled_from(["", "a", "b", "c"])


@given(st.lists(st.tuples(DOCUMENTS, st.sampled_from(["", "train", "test"])), max_size=12))
def test_questions_without_a_split_train_and_measure_where_there_are_two(rows):
    questions = [
        Question(str(i), f"q{i}", "", split, relevant=(Relevant("c", document),) if document else ())
        for i, (document, split) in enumerate(rows)
    ]
    parts = divided(questions)
    assert [q.id for q in parts] == [q.id for q in questions]
    assert all(q.split in (TRAIN, TEST) and (not rows[int(q.id)][1] or q.split == rows[int(q.id)][1]) for q in parts)
    drawn = [q for q in parts if not rows[int(q.id)][1]]
    assert len(drawn) < 2 or {q.split for q in drawn} == {TRAIN, TEST}


ER = st.sampled_from([0.0, 0.5, 1.0])


@given(st.lists(st.tuples(DOCUMENTS, ER, ER, ER), min_size=1, max_size=12))
def test_few_questions_choose_what_needs_no_training(rows):
    documents, *columns = zip(*rows, strict=True)
    recalls = dict(zip((UNTRAINED, "fixed-1", "mix"), map(np.array, columns), strict=True))
    made = choose(recalls, ["mix"], documents, 0)
    # With four documents no sign test has a p below .05.
    assert made.method == UNTRAINED and all(np.isfinite(row["ER"]) for row in made.rows)
