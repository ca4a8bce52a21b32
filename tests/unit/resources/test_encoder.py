"""The embedded encoder itself, not a stand-in."""

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest
from shared import ROOT
from tiny_encoder import tiny_encoder

from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EncoderSettings
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import digest
from mog_assets.resources.transformer import _groups

TEXTS = [
    "The cat sleeps on the sofa.",
    "A kitten is napping on the couch.",
    "Interest rates rose by half a point.",
]


@pytest.fixture(scope="module")
def encoder():
    return Encoder(EncoderSettings(device="cpu"))


def test_vectors_are_unit_float16(encoder):
    vectors = encoder.encode([*TEXTS, "", "word " * 2000])
    assert vectors.dtype == np.float16
    assert vectors.shape == (5, encoder.size) == (5, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors.astype(np.float32), axis=1), 1, atol=2e-3)
    assert encoder.encode([]).shape == (0, 384)


def test_second_call_encodes_nothing(tmp_path):
    settings = EncoderSettings(device="cpu")
    first = Encoder(settings, tmp_path)
    done = []
    vectors = first.encode(TEXTS, done.append)
    assert (first.encoded, sum(done)) == (3, 3)
    second = Encoder(settings, tmp_path)
    done.clear()
    again = second.encode(TEXTS[::-1], done.append)
    assert (second.encoded, sum(done)) == (0, 3)
    assert (again == vectors[::-1]).all()


@pytest.mark.parametrize("damage", ["no database", "truncated", "overwritten"])
def test_damaged_cache_is_made_again(tmp_path, caplog, damage):
    settings = EncoderSettings(device="cpu")
    texts = [f"{text} {n}" for text in TEXTS for n in range(20)]
    first = Encoder(settings, tmp_path)
    vectors = first.encode(texts)
    (path,) = tmp_path.glob("*.sqlite")
    size = path.stat().st_size
    assert size > 5 * 4096
    if damage == "no database":
        path.write_text("not a database, and longer than a header: " * 100)
    elif damage == "truncated":
        os.truncate(path, size // 2)
    else:
        with path.open("r+b") as stream:
            stream.seek(4096)
            stream.write(np.random.default_rng(0).bytes(size - 4096))
    again = Encoder(settings, tmp_path)
    np.testing.assert_array_equal(again.encode(texts), vectors)
    assert again.encoded == len(texts)
    assert f"the vector cache {path} was damaged" in caplog.text
    third = Encoder(settings, tmp_path)
    third.encode(texts)
    assert third.encoded == 0


LIMITED = """
import resource, sys
from pathlib import Path
from mog_assets.resources.encoder_settings import EncoderSettings
from mog_assets.resources.errors import MogError
from mog_assets.resources.encoder import Encoder
encoder = Encoder(EncoderSettings(device="cpu"), Path(sys.argv[1]))
encoder.encode(["one"])
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
try:
    encoder.encode([f"text number {n}" for n in range(100)])
except MogError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(encoder.encode(["one"]).shape, encoder.encoded)
"""


def test_cache_that_cannot_grow_is_an_error_and_keeps_what_it_holds(tmp_path):
    command = [sys.executable, "-c", LIMITED, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    error, last = done.stdout.splitlines()
    assert re.match(r"no room to write .*\.sqlite: expected at least \d+ bytes, \d+ are free \(vector cache: ", error)
    assert last == "(1, 384) 1"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_vector_depends_on_its_text_alone(dtype):
    import torch

    encoder = Encoder(EncoderSettings(device="cpu", dtype=dtype))
    texts = [f"{text} {'And so on. ' * n}" for n, text in enumerate(TEXTS * 4)]
    together = encoder.encode(texts)
    np.testing.assert_array_equal(encoder.encode(texts[::-2]), together[::-2])
    np.testing.assert_array_equal(np.concatenate([encoder.encode([text]) for text in texts]), together)
    threads = torch.get_num_threads()
    for number in (1, 3):
        torch.set_num_threads(number)
        np.testing.assert_array_equal(encoder.encode(texts), together)
        assert torch.get_num_threads() == number
    torch.set_num_threads(threads)


def test_groups_of_a_gpu_have_the_same_shape_whatever_is_in_them():
    lengths = [5, 32, 33, 0, 250] + [64] * 200
    groups = list(_groups(lengths, "cuda"))
    assert sorted(i for group in groups for i in group.texts) == list(range(len(lengths)))
    shapes = {(group.rows, group.length) for group in groups}
    assert shapes == {(256, 32), (128, 64), (32, 256)}
    # A batch without any padding would take another way through attention, which rounds differently.
    assert all(len(group.texts) < group.rows for group in groups)
    assert all(group.length - 32 < max(lengths[i], 1) <= group.length for group in groups for i in group.texts)


def test_every_batch_of_a_gpu_has_padding(tiny, monkeypatch):
    monkeypatch.setattr("mog_assets.resources.transformer._groups", lambda lengths, *_: _groups(lengths, "cuda"))
    encoder = Encoder(EncoderSettings(model=str(tiny["article"]), device="cpu", max_length=32))
    full = []
    encoder.model._loaded.model.register_forward_pre_hook(
        lambda model, positional, named: full.append(bool(named["attention_mask"].all())), with_kwargs=True
    )
    # As many tokens as are read, and as many texts as would fill batches.
    encoder.encode([f"{n} " + "planted in October " * 20 for n in range(512)])
    assert len(full) == 3 and not any(full)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_padding_of_a_group_hardly_changes_a_vector(tiny, monkeypatch, pooling):
    settings = EncoderSettings(model=str(tiny["article"]), device="cpu", dtype="float32", pooling=pooling)
    exact = Encoder(settings).encode(TEXTS)
    monkeypatch.setattr("mog_assets.resources.transformer._groups", lambda lengths, *_: _groups(lengths, "cuda"))
    np.testing.assert_allclose(Encoder(settings).encode(TEXTS), exact, atol=2e-3)


def test_encoding_that_is_interrupted_leaves_the_rest(tiny, monkeypatch):
    encoder = Encoder(EncoderSettings(model=str(tiny["article"]), device="cpu"))
    compute, begun = encoder.model._group_vectors, []

    def interrupted(*group):
        begun.append(group)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return compute(*group)

    monkeypatch.setattr(encoder.model, "_group_vectors", interrupted)
    with pytest.raises(KeyboardInterrupt):
        encoder.encode([f"text {n}" for n in range(1000)])
    assert len(begun) < 50


def test_folder_that_holds_no_model_is_named(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(MogError, match=r"encoder\.model: expected .*does not load"):
        Encoder(EncoderSettings(model=str(tmp_path), device="cpu")).encode(["text"])


def test_model_that_is_neither_folder_nor_id_is_named(tmp_path):
    model = str(tmp_path / "none")
    with pytest.raises(
        MogError, match=r"encoder\.model: expected .*which is not a local folder and cannot be downloaded"
    ):
        Encoder(EncoderSettings(model=model, device="cpu"), tmp_path / "cache").encode(["text"])


def test_cuda_where_there_is_none_is_an_error(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(MogError, match=r"encoder\.device: expected a CUDA device, found none"):
        Encoder(EncoderSettings(device="cuda")).encode(["text"])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoders")
    return {name: tiny_encoder(folder / name, seed) for seed, name in enumerate(("article", "query"))}


def test_cls_is_the_vector_of_the_first_token_and_mean_that_of_all(tiny):
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = str(tiny["article"])
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    for text in TEXTS:
        with torch.inference_mode():
            hidden = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].numpy()
        for pooling, expected in (("cls", hidden[0]), ("mean", hidden.mean(axis=0))):
            # A longer text in the batch: padding changes neither.
            settings = EncoderSettings(model=folder, device="cpu", dtype="float32", pooling=pooling)
            found = Encoder(settings).encode([text, text + " and so on and on"])[0]
            np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=2e-3)


def test_fingerprint_and_identity_change_with_pooling_and_with_how_vectors_are_computed(tiny, monkeypatch):
    def names():
        made = [Encoder(EncoderSettings(model=str(tiny["article"]), device="cpu", pooling=p)) for p in ("mean", "cls")]
        return [encoder.fingerprint for encoder in made] + [digest(encoder.identity) for encoder in made]

    before = names()
    assert len(set(before)) == 4
    monkeypatch.setattr("mog_assets.resources.transformer._COMPUTATION", "otherwise")
    assert not set(before) & set(names())


def test_encoding_that_keeps_nothing_leaves_the_cache_alone(tiny, tmp_path):
    encoder = Encoder(EncoderSettings(model=str(tiny["article"]), device="cpu"), tmp_path / "cache")
    once = encoder.encode(TEXTS, keep=False)
    assert not (tmp_path / "cache").exists()
    vectors = encoder.encode(TEXTS[:2])
    (path,) = (tmp_path / "cache").glob("*.sqlite")
    again = encoder.encode(TEXTS, keep=False)
    assert encoder.encoded == 3 + 2 + 3
    np.testing.assert_array_equal(again, once)
    np.testing.assert_array_equal(again[:2], vectors)
    with closing(sqlite3.connect(path)) as cache:
        assert cache.execute("SELECT count(*) FROM vectors").fetchone() == (2,)
