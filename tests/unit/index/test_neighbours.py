"""What leads to near vectors: rounded ones of small shards, graphs of large ones."""

import numpy as np
import pytest

from mog_assets.index import neighbours as module
from mog_assets.index import vectors as comparing
from mog_assets.index.encoding import write_graph, write_rounded
from mog_assets.index.neighbours import open_neighbours, shorten
from mog_assets.index.vectors import OVERSAMPLING, Near, Neighbours
from mog_assets.resources.arrays import greatest_of
from mog_assets.resources.errors import MogError
from mog_assets.resources.files import save_array

COUNT, SIZE, K = 3000, 48, 20
FORMS = {"rounded_0000.npy": write_rounded, "graph_0000.usearch": write_graph}


@pytest.fixture(autouse=True)
def graphs_are_used(monkeypatch):
    """Also of the few vectors of these tests."""
    monkeypatch.setattr(comparing, "FEW", 100)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Both files of a shard of two buckets and an empty one."""
    folder = tmp_path_factory.mktemp("neighbours")
    rng = np.random.default_rng(0)
    # In clusters, as texts are; one has no vector.
    rows = rng.normal(size=(60, SIZE))[rng.integers(0, 60, COUNT)] + rng.normal(size=(COUNT, SIZE))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[7] = 0
    parts = np.split(rows.astype(np.float16), [1000, 1000])
    paths = [folder / f"{number}.npy" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        save_array(path, part)
    for name, write in FORMS.items():
        assert write([str(path) for path in paths], str(folder / name)) == COUNT
    return folder


@pytest.fixture(scope="module")
def vectors(folder):
    return np.concatenate([np.load(folder / f"{number}.npy") for number in range(3)]).astype(np.float32)


@pytest.fixture(params=[*FORMS, "shortened"])
def shard(request, folder, monkeypatch):
    if request.param in FORMS:
        return open_neighbours(folder / request.param, COUNT)
    monkeypatch.setattr(module, "_SHORT", 40)
    monkeypatch.setattr(module, "_BLOCK", 1024)
    shard = open_neighbours(folder / "rounded_0000.npy", COUNT)
    shorten(shard)
    return shard


def near(shard, question, allowed=None):
    """Pieces that are compared again, and about how near they are."""
    pieces, products = shard.compare(Near(question, K), allowed)
    every = np.count_nonzero(products == np.inf)
    best = greatest_of(products, every or OVERSAMPLING * K)
    return best if pieces is None else pieces[best], products[best]


def questions(vectors, count=40):
    rng = np.random.default_rng(1)
    rows = vectors[rng.integers(8, COUNT, count)] + 0.1 * rng.normal(size=(count, SIZE)).astype(np.float32)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_vectors_whose_directions_would_take_long_stay_as_they_are(folder, vectors, monkeypatch):
    monkeypatch.setattr(module, "_SHORT", 40)
    plain, shortened, long = (open_neighbours(folder / "rounded_0000.npy", COUNT) for _ in range(3))
    shorten(shortened)
    monkeypatch.setattr(module, "_LONGEST", SIZE - 1)
    shorten(long)
    query = Near(vectors[0], K)
    _, expected = plain.compare(query, None)
    np.testing.assert_array_equal(long.compare(query, None)[1], expected)
    assert not np.array_equal(shortened.compare(query, None)[1], expected)


def test_vectors_that_are_shortened_while_they_are_compared_are_compared_all_the_same(folder, vectors, monkeypatch):
    monkeypatch.setattr(module, "_SHORT", 40)

    class ShortenedMeanwhile(Neighbours):
        def __getattribute__(self, name):
            value = super().__getattribute__(name)
            if name == "shortened" and value is None:
                shorten(self)
            return value

    plain, query = open_neighbours(folder / "rounded_0000.npy", COUNT), Near(vectors[0], K)
    shard = ShortenedMeanwhile(COUNT, rounded=plain.rounded)
    np.testing.assert_array_equal(shard.compare(query, None)[1], plain.compare(query, None)[1])
    assert shard.rounded is None


def test_nearly_all_of_the_nearest_are_among_what_is_near(shard, vectors):
    shares = []
    for question in questions(vectors):
        pieces, _ = near(shard, question)
        shares.append(np.isin(np.argsort(-(vectors @ question))[:K], pieces).mean())
    assert np.mean(shares) > 0.99


def test_products_are_about_those_with_the_vectors(shard, vectors):
    for question in questions(vectors):
        pieces, products = near(shard, question)
        # Noise is as great in all directions, so that each that is left out counts.
        np.testing.assert_allclose(products, vectors[pieces] @ question, atol=0.3 if shard.shortened else 0.02)


@pytest.mark.parametrize("left", [0, 1, 50, 1000])
def test_all_of_the_nearest_that_a_filter_leaves_are_found_where_it_leaves_few(shard, vectors, left):
    allowed = np.zeros(COUNT, bool)
    allowed[np.random.default_rng(left).choice(COUNT, left, replace=False)] = True
    shares = []
    for question in questions(vectors):
        pieces, _ = near(shard, question, allowed)
        assert allowed[pieces].all()
        nearest = np.argsort(np.where(allowed, -(vectors @ question), np.inf))[: min(K, left)]
        shares.append(np.isin(nearest, pieces).mean() if left else 1 - len(pieces))
    assert np.mean(shares) >= (1 if left <= comparing.FEW else 0.99)


@pytest.mark.parametrize("write", FORMS.values())
def test_a_shard_without_vectors_has_nothing_near(tmp_path, write):
    save_array(tmp_path / "none.npy", np.zeros((0, SIZE), np.float16))
    name = next(name for name in FORMS if FORMS[name] is write)
    assert write([str(tmp_path / "none.npy")], str(tmp_path / name)) == 0
    shard = open_neighbours(tmp_path / name, 0)
    for allowed in (None, np.zeros(0, bool)):
        assert [len(column) for column in near(shard, np.ones(SIZE, np.float32), allowed)] == [0, 0]


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("damage", ["short", "empty", "noise", "other"])
def test_a_damaged_file_is_an_error_that_says_what_to_do(folder, tmp_path, name, damage):
    whole, count = (folder / name).read_bytes(), COUNT + (damage == "other")
    stored = {"short": whole[: len(whole) // 2], "empty": b"", "noise": b"\x93" + bytes(5000), "other": whole}
    (tmp_path / name).write_bytes(stored[damage])
    with pytest.raises(
        MogError, match=rf"^{name} of neighbours: expected .*{count:,} .*vectors, got another.*`mog run`"
    ):
        open_neighbours(tmp_path / name, count)


def test_vectors_of_another_kind_are_not_taken_for_rounded_ones(tmp_path):
    save_array(tmp_path / "rounded_0000.npy", np.zeros((5, SIZE), np.float16))
    with pytest.raises(MogError, match="expected 5 rounded vectors, got another file .it is float16 of shape"):
        open_neighbours(tmp_path / "rounded_0000.npy", 5)
