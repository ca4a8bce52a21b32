"""What follows from an asset that was forced is planned again after it, and made again where the asset changed."""

import random

import numpy as np
import pytest

from mog_assets.build.plan import graph, stale
from mog_assets.build.tools import Tools
from mog_assets.papers.topics import assets, fitting

WORDS = {
    "sky": "telescope galaxy planet comet orbit nebula asteroid moon star eclipse meteor astronomer",
    "bread": "flour yeast dough oven loaf sourdough baker crust knead rye bake starter",
}


def documents(numbers):
    chosen = random.Random(1)
    return [
        (
            f"{name}{i}",
            " ".join("The {} and the {} come with a {}.".format(*chosen.sample(words.split(), 3)) for _ in range(4)),
        )
        for name, words in WORDS.items()
        for i in numbers
    ]


def by_first_word(vectors, texts, settings, seed):
    """Stands for UMAP and HDBSCAN, which take a process of their own and seconds: the same texts, the same topics."""
    topics = np.array([0 if any(word in WORDS["sky"].split() for word in text.split()) else 1 for text in texts])
    return topics, [[name] for name in WORDS]


@pytest.fixture(scope="module", autouse=True)
def quick_topics():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "_cluster", by_first_word)
        patch.setattr(assets, "fit_apart", lambda arguments: fitting.fit_buckets(**arguments))
        yield


@pytest.fixture(scope="module")
def forced(tmp_path_factory, make_project, write_documents, materialise_project):
    """A project with a topic model that was kept when documents came, and the report of a run that forced it."""
    folder = tmp_path_factory.mktemp("forced")
    write_documents(folder / "one.jsonl", documents(range(8)))
    project = make_project(
        folder,
        {
            "corpora": {"one": {"path": "one.jsonl"}},
            "levels": 2,
            "buckets": 4,
            "methods": ["default", "papers"],
            "topics": {"min_topic_size": 4, "refit_share": 1.0},
        },
    )
    assert materialise_project(project.settings).failures == []
    write_documents(folder / "one.jsonl", documents(range(12)))
    assert materialise_project(project.settings).failures == []
    before = Tools(project.settings).store.read("topics/model").manifest.version
    report = materialise_project(project.settings, force=["topics/model"])
    assert report.failures == []
    assert Tools(project.settings).store.read("topics/model").manifest.version != before
    return project, report


def test_what_follows_from_it_is_made_again(forced):
    _, report = forced
    built = [step["asset"] for step in report.steps if step["seconds"]]
    assert built[:2] == ["topics/model", "topics/assigned"]


def test_nothing_is_stale_after_it(forced):
    project, _ = forced
    recipes = graph(project.settings)
    keys = {key for key, recipe in recipes.items() if not recipe.on_demand}
    assert stale(Tools(project.settings), recipes, keys, list(project.settings.corpora)) == []


def test_nothing_follows_from_one_that_is_made_again_and_did_not_change(forced, materialise_project):
    project, _ = forced
    report = materialise_project(project.settings, force=["topics/model"])
    assert report.failures == []
    assert [step["asset"] for step in report.steps] == ["topics/model"]
    assert report.steps[0]["recomputed"]["chunks fitted on"] > 0
