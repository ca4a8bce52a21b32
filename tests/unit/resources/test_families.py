"""Prompts and pooling come from a model's files."""

import json
import shutil

import numpy as np
import pytest
from tiny_encoder import tiny_encoder

from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EncoderFamily, EncoderSettings, family


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return tiny_encoder(tmp_path_factory.mktemp("tiny"), 3)


def test_the_last_token_gives_the_vector_alone_and_in_a_padded_group(tiny, monkeypatch):
    from mog_assets.resources import transformer

    last = EncoderSettings(model=str(tiny), pooling="last")
    alone = Encoder(last).encode(["soil", "a longer text of many letters"])
    assert not np.array_equal(alone, Encoder(last.model_copy(update={"pooling": "cls"})).encode(["soil", "a"])[:2])
    groups = transformer._groups
    monkeypatch.setattr(transformer, "_groups", lambda lengths, *_: groups(lengths, "cuda"))
    padded = Encoder(last).encode(["soil", "a longer text of many letters"])
    assert np.allclose(alone, padded, atol=2e-3)


def test_files_of_sentence_transformers_say_more_than_the_name(tiny, tmp_path):
    folder = shutil.copytree(tiny, tmp_path / "bge-small-en")
    (folder / "1_Pooling").mkdir()
    pooled = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooled))
    prompts = {"prompts": {"query": "ask: ", "document": "tell: "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    assert family(str(folder), folder) == EncoderFamily("ask: ", "tell: ", "mean")


def test_fewer_dimensions_are_the_first_ones_at_length_one(tiny):
    whole = Encoder(EncoderSettings(model=str(tiny))).encode(["soil"]).astype(float)
    cut = Encoder(EncoderSettings(model=str(tiny), dimensions=8))
    vector = cut.encode(["soil"]).astype(float)
    assert cut.size == 8 and np.allclose(vector, whole[:, :8] / np.linalg.norm(whole[:, :8]), atol=2e-3)
