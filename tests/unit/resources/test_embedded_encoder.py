"""The embedded encoder's own networks and tokenizer against those of `transformers`."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from mog_assets.resources import embedded
from mog_assets.resources.bert import Bert
from mog_assets.resources.embedded import WordPieces
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EncoderSettings

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


@pytest.mark.parametrize(("dtype", "most"), [("float32", 5e-4), ("bfloat16", 1e-2)])
@pytest.mark.parametrize(
    "options", [{}, {"dimensions": 64}, {"pooling": "cls"}, {"pooling": "last"}, {"query_prompt": "query: "}]
)
def test_questions_have_the_same_vectors_without_torch(dtype, most, options):
    encoder = Encoder(EncoderSettings(device="cpu", dtype=dtype, **options))
    expected = encoder.questions.encode(QUESTIONS, keep=False).astype(np.float32)
    vectors = encoder.questions.encode_uncached(QUESTIONS)
    assert vectors.dtype == np.float16 and vectors.shape == expected.shape
    assert np.abs(vectors.astype(np.float32) - expected).max() < most
    assert encoder.encode_uncached([]).shape == (0, expected.shape[1])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_question_has_one_vector_alone_and_among_many_in_several_threads(dtype):
    encode = Encoder(EncoderSettings(device="cpu", dtype=dtype)).encode_uncached
    many = [f"How deep are {n} newts, and {'how ' * (n % 7)}wide?" for n in range(40)]
    with ThreadPoolExecutor(4) as pool:
        together, *alone = pool.map(encode, [many, *([question] for question in many)])
    # Products of float32 are rounded by how many rows there are.
    np.testing.assert_allclose(together.astype(np.float32), np.concatenate(alone).astype(np.float32), atol=1e-3)


ALONE = """
import sys
import numpy as np
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EncoderSettings
encoder = Encoder(EncoderSettings(device="cpu", dtype=sys.argv[1]))
texts = [f"Newts winter under stones, and number {n} sleeps." for n in range(40)]
encoder.encode_uncached(texts[:1])
assert "torch" not in sys.modules
few = encoder.encode(texts[:2]).astype(np.float32)
print("torch" in sys.modules)
encoder.encode(texts)
assert "torch" in sys.modules
assert np.abs(few - encoder.encode(texts[:2]).astype(np.float32)).max() < 1e-4
"""


@pytest.mark.parametrize(("dtype", "imported"), [("float32", False), ("bfloat16", True)])
def test_few_texts_are_encoded_without_torch_where_their_vectors_stay_the_same(dtype, imported):
    done = subprocess.run([sys.executable, "-c", ALONE, dtype], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(imported)


def test_the_length_of_texts_is_set_once_whatever_threads_come_first(folder):
    pieces, times = WordPieces(folder), []
    inner = pieces._tokenizer

    class Slow:
        def enable_truncation(self, length):
            times.append(length)
            time.sleep(0.2)
            inner.enable_truncation(length)

        def encode(self, text):
            return inner.encode(text)

    pieces._tokenizer = Slow()
    with ThreadPoolExecutor(4) as pool:
        cut = list(pool.map(lambda text: pieces([text], max_length=8)["input_ids"], ["word " * 20] * 4))
    assert times == [8] and {len(row) for rows in cut for row in rows} == {8}


def test_words_are_told_from_pieces_however_many_are_remembered(monkeypatch):
    model = Encoder(EncoderSettings()).model
    words = ["water", "zebra", "xyzzyplugh", "river", "zymurgical"]
    expected = model.is_token(words).tolist()
    monkeypatch.setattr(embedded, "_WORDS", 2)
    model.is_token(["stone", "leaf"])
    assert expected == [True, True, False, True, False]
    assert model.is_token(["water", *words]).tolist() == [True, *expected]
