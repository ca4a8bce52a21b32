"""Which recipes a run asks for."""

import pytest
from shared import ROOT

from mog_assets import config
from mog_assets.build.plan import built_unasked, default, graph, needed
from mog_assets.build.tools import Tools
from mog_assets.registry import Stage
from mog_assets.resources.errors import ConfigError


@pytest.fixture(scope="module")
def settings():
    """Those of the samples, as `mog init` writes them."""
    return config.load(ROOT / "mog.yaml")


@pytest.mark.parametrize("key", ["documents", "mentions", "mix", "scores"])
def test_the_recipes_of_some_assets_are_those_among_all(settings, key):
    some, every = graph(settings, [key]), graph(settings)
    assert needed(some, [key]) == needed(every, [key]) and some.keys() <= every.keys()
    for name in needed(some, [key]):
        facts = ("deps", "turn", "measured", "partitioned", "version")
        assert all(getattr(some[name], fact) == getattr(every[name], fact) for fact in facts)


def test_what_is_built_unasked_is_known_without_the_other_recipes(settings):
    some, every = graph(settings, built_unasked(settings)), graph(settings)
    assert default(some) == default(every)
    assert [key for key in every if key in some] == list(some)
    assert not any(key.startswith("experiments/") for key in some)
    assert Tools(settings).read[0]


def test_a_stage_that_declares_too_few_keys_is_named():
    stage = Stage("mog_assets.index.mentions.assets", ("names",))
    with pytest.raises(ConfigError, match="expected recipes of names, got mentions: name it"):
        stage(config.load(ROOT / "mog.yaml"))
