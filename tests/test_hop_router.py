"""The router of `mogg`: when it is trained, and that it is never read where it is damaged or for another graph."""

import tempfile
from pathlib import Path

import damage
import pytest
from test_incremental import IN_MEMORY, encoder, nothing_is_drawn  # noqa: F401
from test_kept_runs import project_of, put

from mog_assets import plan
from mog_assets.ranking import models
from mog_assets.ranking.retrieve import expert_names
from mog_assets.recipe import is_fresh, materialise
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import digest


@pytest.fixture
def project(encoder):  # noqa: F811
    """Every change counts: nothing that was trained before stays because little has changed."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        drift = {"documents": 0, "training": 0}
        yield project_of(Path(name), encoder, 16, methods=["fused", "mogg"], drift=drift, graph={"hops": 1})


def trained(project):
    """Bring the router up to date with everything before it; what came of it."""
    recipes = plan.graph(project.settings)
    for key in plan.needed(recipes, ["hop_router"]):
        for corpus in project.settings.corpora if recipes[key].partitioned else [None]:
            outcome = materialise(recipes[key], corpus, project.tools, recipes)
    return outcome


def opened(project):
    stored = project.tools.store.read("hop_router")
    names = expert_names(project.settings, "mogg")
    return models.open_router(stored, project.tools.encoder.fingerprint, names, "mogg")


def content(project):
    stored = project.tools.store.read("hop_router")
    return {name: digest(stored.path(name).read_bytes().hex()) for name in stored.manifest.files}


def test_it_is_built_where_a_method_names_it_and_on_demand_elsewhere(project):
    assert "hop_router" in plan.default(plan.graph(project.settings))
    project.set(methods=["fused", "mog", "mix"])
    recipes = plan.graph(project.settings)
    assert "hop_router" not in plan.default(recipes) and {"router", "mix"} <= plan.default(recipes)
    assert trained(project).built and opened(project).arrays


@pytest.mark.full
def test_after_edits_it_is_byte_for_byte_what_is_trained_from_nothing(project):
    trained(project)
    before = content(project)
    put(project, 3, "The kingfisher of the weir was not seen. ")
    put(project, 17)
    project.take("folder", "d04")
    assert trained(project).built
    after = content(project)
    assert after[models.ARRAYS] != before[models.ARRAYS]
    again = type(project)(project.folder, project.encoder, "rebuilt", **project.options)
    trained(again)
    assert content(again) == after


@pytest.mark.full
def test_another_graph_trains_it_for_the_hops_there_are(project):
    # Candidates stay as they are, but the router has no weights for these hops.
    project.set(drift={"training": 0.5})
    trained(project)
    project.set(graph={"hops": 2})
    assert trained(project).built
    wanted = expert_names(project.settings, "mogg")
    assert "hop-bm25-2" in wanted and opened(project).arrays["layer1.bias"].shape == (len(wanted),)


@pytest.mark.full
def test_a_damaged_one_is_refused_and_made_again(project):
    trained(project)
    before = content(project)
    for harm in (damage.flip, damage.truncate, damage.delete):
        harm(project.tools.store.read("hop_router").path(models.ARRAYS))
        with pytest.raises((MogError, OSError), match="router"):
            opened(project)
        recipes = plan.graph(project.settings)
        assert not is_fresh(recipes["hop_router"], None, project.tools, recipes)
        assert trained(project).built
        assert content(project) == before and opened(project).arrays
