"""The embedded encoder's own network and tokenizer against those of `transformers`: the same to the bit."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from mog_assets.resources import transformer
from mog_assets.resources.bert import Bert
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EncoderSettings
from mog_assets.resources.transformer import WordPieces

TEXTS = [
    "The cat sleeps on the sofa.",
    "",
    "Größe ﬁ naïve 日本語 <s> [MASK] [SEP] ~~ \x00 \u200b 👩‍🚀 don't U.S.A. 3.14",
    "word " * 900,
    "The quick brown fox jumps over the lazy dog. " * 12,
]


@pytest.fixture(scope="module")
def folder():
    return Path(Encoder(EncoderSettings()).model.source)


@pytest.fixture(scope="module")
def tokens(folder):
    return WordPieces(folder)(TEXTS, max_length=256)["input_ids"]


def test_the_tokens_are_those_of_transformers(folder, tokens):
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    assert tokens == theirs(TEXTS, truncation=True, max_length=256)["input_ids"]
    assert max(map(len, tokens)) == 256
    assert WordPieces.pad_token_id == theirs.pad_token_id


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_hidden_states_are_those_of_transformers_to_the_bit(folder, tokens, dtype):
    theirs = transformers.AutoModel.from_pretrained(folder, dtype=dtype, use_safetensors=True).eval()
    ours = Bert(folder, dtype, "cpu")
    with torch.inference_mode():
        for row in tokens:
            ids = torch.tensor([row])
            mask = torch.ones_like(ids)
            expected = theirs(input_ids=ids, attention_mask=mask).last_hidden_state
            assert torch.equal(ours(input_ids=ids, attention_mask=mask).last_hidden_state, expected)
        ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in tokens], batch_first=True)
        mask = torch.nn.utils.rnn.pad_sequence([torch.ones(len(row)).long() for row in tokens], batch_first=True)
        expected = theirs(input_ids=ids, attention_mask=mask).last_hidden_state
        assert torch.equal(ours(input_ids=ids, attention_mask=mask).last_hidden_state, expected)


QUESTIONS = ["How long does dough rise?", "?", "Wie hoch ist der Montblanc – in Fuß?", "word " * 300]


@pytest.mark.parametrize("dimensions", [None, 64])
def test_questions_have_the_same_vectors_without_torch(dimensions):
    settings = EncoderSettings(dtype="float32", dimensions=dimensions)
    expected = Encoder(settings).encode_questions(QUESTIONS, keep=False).astype(np.float32)
    light = Encoder(settings)
    light.light = True
    vectors = light.encode_questions(QUESTIONS, keep=False)
    assert vectors.dtype == np.float16 and vectors.shape == expected.shape
    np.testing.assert_allclose(vectors.astype(np.float32), expected, atol=1e-3)
    assert len(light.encode_questions([], keep=False)) == 0


def test_words_are_told_from_pieces_however_many_are_remembered(monkeypatch):
    model = Encoder(EncoderSettings()).model
    words = ["water", "zebra", "xyzzyplugh", "river", "zymurgical"]
    expected = model.is_token(words).tolist()
    monkeypatch.setattr(transformer, "_WORDS", 2)
    model.is_token(["stone", "leaf"])
    assert (
        model.is_token(["water", *words]).tolist() == [expected[0], *expected] == [True, True, True, False, True, False]
    )
