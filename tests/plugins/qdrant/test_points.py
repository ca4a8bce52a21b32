"""Points of the sample project: their ids, and the nearest of them."""

import subprocess
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from served import command, environment
from shared import copy_folder, run_alone

from mog_assets import config
from mog_assets.build import plan
from mog_assets.build.tools import Tools
from mog_assets.index.corpora import Corpora
from mog_assets.plugins.qdrant.ids import IdSet, packed_ids, stored_ids, unpacked_ids
from mog_assets.plugins.qdrant.nearest import nearest
from mog_assets.plugins.qdrant.store import collections_of
from mog_assets.search.nearest import exactly_nearest


def test_ids_are_found_at_their_places_and_unknown_ones_nowhere(tmp_path):
    ids = [f"{number:032x}" for number in np.random.default_rng(0).permutation(500)]
    # Ids whose first halves are the same.
    ids = [f"{identity[:8]}-{identity[8:12]}-{identity[12:16]}-{identity[16:20]}-{identity[20:]}" for identity in ids]
    packed = packed_ids(ids)
    assert unpacked_ids(packed) == ids
    known = IdSet(packed[100:])
    assert known.find(packed).tolist() == [-1] * 100 + list(range(400))
    assert known.find(packed[:0]).tolist() == [] and IdSet(packed[:0]).find(packed[:3]).tolist() == [-1] * 3
    np.save(tmp_path / "ids.npy", packed.astype(">u8").view(np.uint8).reshape(-1, 16))
    np.testing.assert_array_equal(stored_ids(tmp_path / "ids.npy"), packed)


@pytest.fixture(scope="module")
def built(sample_project, tmp_path_factory):
    """The sample project with collections, which it did not name."""
    folder = copy_folder(sample_project.folder, tmp_path_factory.mktemp("points") / "project")
    settings = config.load(folder / "mog.yaml")
    assert plan.graph(settings)["collections/level_1"].on_demand
    wanted = [f"collections/level_{level}" for level in settings.level_range]
    report = run_alone(settings, select=wanted)
    assert {step["asset"] for step in report.steps} == set(wanted) and not report.failures
    return SimpleNamespace(settings=settings, config=folder / "mog.yaml")


@pytest.mark.parametrize(("level", "k"), [(1, 5), (3, 8)])
def test_nearest_in_collections_are_those_of_all_products(built, level, k):
    tools, settings = Tools(built.settings), built.settings
    corpora = Corpora.open(tools.store.read, settings, list(settings.corpora), keep=True)
    given = np.random.default_rng(6).normal(size=(6, 384)).astype(np.float32)
    given /= np.linalg.norm(given, axis=1, keepdims=True)
    stored = nearest(tools, corpora, given, level, k)
    for (chunks, scores), (expected, values) in zip(stored, exactly_nearest(corpora, given, level, k), strict=True):
        np.testing.assert_allclose(scores, values, atol=2e-3)
        assert (chunks == expected).mean() > 0.9


@pytest.mark.whole
def test_ids_are_those_of_the_points_in_qdrant(built, tmp_path):
    words = [*command("export"), "--vectors", "--to", tmp_path, "--config", built.config]
    subprocess.run(words, env=environment(), check=True)
    tools = Tools(built.settings)
    size = pq.read_schema(tmp_path / "vectors" / "sky.parquet").field("vector").type.list_size
    with collections_of(tools).open("level_1", size) as collection:
        points = {id for page in collection.pages("sky") for id in ([page] if isinstance(page, str) else page)}
    assert points == set(pq.read_table(tmp_path / "vectors" / "sky.parquet")["id"].to_pylist())
