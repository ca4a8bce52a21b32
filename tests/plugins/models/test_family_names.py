"""Prompts and pooling come from the family that a model's name tells, where its files do not say more."""

import shutil

import numpy as np
import pytest
from tiny_encoder import tiny_encoder

from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EncoderFamily, EncoderSettings, family

SEARCH = "Represent this sentence for searching relevant passages: "


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return tiny_encoder(tmp_path_factory.mktemp("tiny"), 3)


@pytest.mark.parametrize(
    ("name", "query", "passage", "pooling"),
    [
        ("multilingual-e5-base", "query: ", "passage: ", "mean"),
        ("bge-small-en-v1.5", SEARCH, "", "cls"),
        ("bge-m3", "", "", "cls"),
        ("snowflake-arctic-embed-m-v2.0", "query: ", "", "cls"),
        ("nomic-embed-text-v1.5", "search_query: ", "search_document: ", "mean"),
        ("gte-base", "", "", "mean"),
        ("gte-multilingual-base", "", "", "cls"),
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


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"prompts": {"query": 1}}', '{"prompts": []}', '{"prompts": {"query": ""}}']
)
def test_files_that_say_nothing_leave_the_family(tmp_path, content):
    (tmp_path / "config_sentence_transformers.json").write_text(content)
    assert family("e5-base", tmp_path) == EncoderFamily("query: ", "passage: ")


def test_settings_say_more_than_files_and_names(tiny, tmp_path):
    folder = shutil.copytree(tiny, tmp_path / "e5-base")
    chosen = Encoder(EncoderSettings(model=str(folder), query_prompt="", passage_prompt=""))
    assert chosen.questions is chosen
    assert np.array_equal(chosen.encode(["soil"]), Encoder(EncoderSettings(model=str(tiny))).encode(["soil"]))
