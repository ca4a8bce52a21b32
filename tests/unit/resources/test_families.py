"""Prompts and pooling come from a model's files, or from the family that its name tells."""

import json
import shutil

import numpy as np
import pytest
from tiny_encoder import tiny_encoder

from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EncoderSettings
from mog_assets.resources.families import Family, family

SEARCH = "Represent this sentence for searching relevant passages: "


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return tiny_encoder(tmp_path_factory.mktemp("tiny"), 3)


@pytest.mark.parametrize(
    ("name", "query", "passage", "pooling"),
    [
        ("multilingual-e5-base", "query: ", "passage: ", "mean"),
        ("e5-small-v2", "query: ", "passage: ", "mean"),
        ("bge-small-en-v1.5", SEARCH, "", "cls"),
        ("bge-m3", "", "", "cls"),
        ("snowflake-arctic-embed-m-v2.0", "query: ", "", "cls"),
        ("snowflake-arctic-embed-s", SEARCH, "", "cls"),
        ("nomic-embed-text-v1.5", "search_query: ", "search_document: ", "mean"),
        ("gte-base", "", "", "mean"),
        ("gte-multilingual-base", "", "", "cls"),
        ("all-mpnet-base-v2", "", "", "mean"),
    ],
)
def test_a_family_is_used_as_its_card_says(tiny, tmp_path, name, query, passage, pooling):
    folder = shutil.copytree(tiny, tmp_path / name)
    encoder = Encoder(EncoderSettings(model=str(folder)))
    # The same by hand: no family, the words in the texts.
    plain = EncoderSettings(model=str(tiny), query_prompt="", passage_prompt="", pooling=pooling)
    by_hand = Encoder(plain)
    assert np.array_equal(encoder.encode(["soil", "seed"]), by_hand.encode([f"{passage}soil", f"{passage}seed"]))
    assert np.array_equal(encoder.questions.encode(["soil"]), by_hand.encode([f"{query}soil"]))


def test_qwen_is_told_what_to_do_and_gives_the_last_vector():
    its = family("Qwen/Qwen3-Embedding-0.6B")
    assert (
        its.pooling == "last"
        and its.query.startswith("Instruct: ")
        and its.query.endswith("\nQuery:")
        and not its.passage
    )


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
    assert family(str(folder), folder) == Family("ask: ", "tell: ", "mean")


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"prompts": {"query": 1}}', '{"prompts": []}', '{"prompts": {"query": ""}}']
)
def test_files_that_say_nothing_leave_the_family(tmp_path, content):
    (tmp_path / "config_sentence_transformers.json").write_text(content)
    assert family("e5-base", tmp_path) == Family("query: ", "passage: ")


def test_settings_say_more_than_files_and_names(tiny, tmp_path):
    folder = shutil.copytree(tiny, tmp_path / "e5-base")
    chosen = Encoder(EncoderSettings(model=str(folder), query_prompt="", passage_prompt=""))
    assert chosen.questions is chosen
    assert np.array_equal(chosen.encode(["soil"]), Encoder(EncoderSettings(model=str(tiny))).encode(["soil"]))


def test_fewer_dimensions_are_the_first_ones_at_length_one(tiny):
    whole = Encoder(EncoderSettings(model=str(tiny))).encode(["soil"]).astype(float)
    cut = Encoder(EncoderSettings(model=str(tiny), dimensions=8))
    vector = cut.encode(["soil"]).astype(float)
    assert cut.size == 8 and np.allclose(vector, whole[:, :8] / np.linalg.norm(whole[:, :8]), atol=2e-3)
