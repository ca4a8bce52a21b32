"""The embedded encoder itself, not a stand-in."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mog_assets.config import EncoderSettings
from mog_assets.errors import MogError
from resources.encoder import Encoder

TEXTS = [
    "The cat sleeps on the sofa.",
    "A kitten is napping on the couch.",
    "Interest rates rose by half a point.",
]


@pytest.fixture(scope="module")
def encoder():
    return Encoder(EncoderSettings(device="cpu"))


def test_similar_sentences_are_closer(encoder):
    cat, kitten, money = encoder.encode(TEXTS).astype(np.float32)
    assert cat @ kitten > 0.5
    assert cat @ money < 0.2


def test_vectors_are_unit_float16(encoder):
    vectors = encoder.encode([*TEXTS, "", "word " * 2000])
    assert vectors.dtype == np.float16
    assert vectors.shape == (5, encoder.size) == (5, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors.astype(np.float32), axis=1), 1, atol=2e-3)


def test_no_texts_give_no_vectors(encoder):
    assert encoder.encode([]).shape == (0, 384)


def test_same_text_is_encoded_once(encoder):
    before = encoder.encoded
    vectors = encoder.encode([TEXTS[0], TEXTS[1], TEXTS[0]])
    assert encoder.encoded - before == 2
    assert (vectors[0] == vectors[2]).all()


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
    np.testing.assert_allclose(again.encode(texts), vectors, atol=2e-3)
    assert again.encoded == len(texts)
    assert f"the vector cache {path} was damaged" in caplog.text
    third = Encoder(settings, tmp_path)
    third.encode(texts)
    assert third.encoded == 0


LIMITED = """
import resource, sys
from pathlib import Path
from mog_assets.config import EncoderSettings
from mog_assets.errors import MogError
from resources.encoder import Encoder
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
    done = subprocess.run(command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, check=True)
    error, last = done.stdout.splitlines()
    assert re.match(r"no room to write .*\.sqlite: expected at least \d+ bytes, \d+ are free \(vector cache: ", error)
    assert last == "(1, 384) 1"


def test_another_length_never_reads_the_same_cache(tmp_path):
    short, long = (Encoder(EncoderSettings(device="cpu", max_length=n), tmp_path) for n in (8, 64))
    assert short.fingerprint != long.fingerprint
    text = "The beginning is the same, and what comes after it is about volcanoes on distant moons."
    assert not (short.encode([text]) == long.encode([text])).all()
    assert long.encoded == 1


def test_neighbours_in_a_batch_hardly_change_a_vector(encoder):
    texts = [f"{text} {'And so on. ' * n}" for n, text in enumerate(TEXTS * 4)]
    together = encoder.encode(texts).astype(np.float32)
    alone = np.concatenate([encoder.encode([text]) for text in texts]).astype(np.float32)
    assert ((together * alone).sum(axis=1) > 0.98).all()


def test_folder_that_holds_no_model_is_named(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(MogError, match=r"encoder\.model: expected .*does not load"):
        Encoder(EncoderSettings(model=str(tmp_path), device="cpu")).encode(["text"])


def test_model_that_is_neither_folder_nor_id_is_named(tmp_path):
    model = str(tmp_path / "none")
    with pytest.raises(MogError, match=r"encoder\.model: expected .*which is no folder here and cannot be fetched"):
        Encoder(EncoderSettings(model=model, device="cpu"), tmp_path / "cache").encode(["text"])


def test_cuda_where_there_is_none_is_an_error(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(MogError, match=r"encoder\.device: expected a CUDA device, found none"):
        Encoder(EncoderSettings(device="cuda")).encode(["text"])
