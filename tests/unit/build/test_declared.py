"""A build reads the settings that its recipe declares, and no others."""

import pytest
from declared import UndeclaredSetting

from mog_assets.build.materialising import materialise
from mog_assets.build.recipe import Recipe
from mog_assets.build.tools import Tools
from mog_assets.config import settings_model

CORPORA = {"hills": {"path": "hills"}, "lakes": {"path": "lakes"}}
SETS = {"asked": {"path": "q.jsonl", "corpora": ["hills"], "train": ["train"], "test": ["dev"]}}


@pytest.fixture
def tools(tmp_path):
    return Tools(
        settings_model().model_validate({"home": tmp_path / "home", "corpora": CORPORA, "question_sets": SETS})
    )


def built(tools, read, declared):
    """What a build read, in a recipe that declares what `declared` reads."""
    seen = []

    def build(work):
        seen.append(read(work.settings))

    materialise(
        Recipe("one", build, "", "g", partitioned=False, settings=lambda t: declared(t.settings)), None, tools, {}
    )
    return seen[0]


@pytest.mark.whole
@pytest.mark.parametrize(
    ("read", "declared", "missing"),
    [
        (lambda s: s.seed, lambda s: None, "seed"),
        (lambda s: s.question_sets["asked"].test, lambda s: s.question_sets["asked"].train, "question_sets.test"),
        # What is read inside a property.
        (lambda s: s.tests, lambda s: s.trains, "question_sets.test"),
        (lambda s: s.bm25.model_dump(), lambda s: s.bm25.model_dump(exclude={"b"}), "bm25.b"),
        (lambda s: s.model_dump_json(), lambda s: s.seed, "corpora.source"),
    ],
)
def test_a_setting_that_is_not_declared_cannot_be_read_and_is_named(tools, read, declared, missing):
    with pytest.raises(UndeclaredSetting, match=rf"^one: .*got {missing}: "):
        built(tools, read, declared)
    assert tools.store.find("one") is None


def test_what_decides_the_inputs_need_not_be_declared(tools):
    assert built(tools, lambda s: (list(s.corpora), list(s.level_range)), lambda s: None) == (
        list(CORPORA),
        [1, 2, 3, 4, 5],
    )


def test_a_change_of_what_is_declared_builds_again_and_of_anything_else_does_not(tools):
    def changed(**values):
        return Tools(tools.settings.model_copy(update=values))

    recipe = Recipe("one", lambda work: None, "", "g", partitioned=False, settings=lambda t: t.settings.seed)
    outcomes = [materialise(recipe, None, its, {}).built for its in (tools, changed(k=7), changed(seed=9))]
    assert outcomes == [True, False, True]
