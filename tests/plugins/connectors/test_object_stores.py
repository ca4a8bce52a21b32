"""Documents in buckets: a real server of S3 on loopback, whose requests are counted."""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
import yaml
from shared import ROOT, new_project, run_alone

from mog_assets import config
from mog_assets.build.tools import Tools
from mog_assets.documents.sources import _fault
from mog_assets.resources.errors import ConfigError

pytest.importorskip("s3fs", reason="the extra `s3` is not installed")
moto_server = pytest.importorskip("moto.server")
SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"
STAGES = ["documents"]


@pytest.fixture(scope="module")
def server():
    """An endpoint, and the paths of all requests for something."""
    from werkzeug.serving import make_server

    store, paths = moto_server.DomainDispatcherApplication(moto_server.create_backend_app), []

    def counting(environ, start_response):
        if environ["REQUEST_METHOD"] == "GET":
            paths.append(environ["PATH_INFO"])
        return store(environ, start_response)

    serving = make_server("127.0.0.1", 0, counting, threaded=True)
    thread = threading.Thread(target=serving.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}", paths
    serving.shutdown()
    thread.join()


@pytest.fixture
def bucket(server, monkeypatch):
    """An empty bucket, whose credentials are in the environment."""
    import boto3

    environment = {
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "eu-west-1",
    }
    for name, value in {**environment, "AWS_ENDPOINT_URL": server[0]}.items():
        monkeypatch.setenv(name, value)
    resource = boto3.resource("s3")
    opened = resource.Bucket("library")
    if opened.creation_date is None:
        opened.create(CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    opened.objects.all().delete()
    return opened


def project(folder, source="s3://library/books", **values):
    return new_project(folder, {"corpora": {"books": {"source": source}}, **values})


def put(bucket, **texts):
    for name, text in texts.items():
        bucket.put_object(Key=f"books/{name.replace('__', '/')}.md", Body=text.encode())


def documents(settings):
    read = Tools(settings).store.read("documents", "books")
    return read.manifest.counts["documents"], read.manifest.version, read.manifest.info["recomputed"]


@pytest.fixture
def requested(server):
    """Keys of the objects whose content was asked for since the last call."""
    server[1].clear()

    def keys():
        asked = sorted(path.removeprefix("/library/") for path in server[1] if path.startswith("/library/books/"))
        server[1].clear()
        return asked

    return keys


@pytest.mark.full
def test_a_bucket_is_followed_object_by_object_as_a_rebuild_would_have_it(tmp_path, bucket, requested):
    put(bucket, hens="# Hens\n\nFive eggs.", ducks="# Ducks\n\nNine eggs.", old__geese="# Geese\n\nOne egg.")
    bucket.put_object(Key="books/.hidden.md", Body=b"no")
    bucket.put_object(Key="books/picture.png", Body=b"no")
    bucket.put_object(Key="elsewhere.md", Body=b"no")
    settings = project(tmp_path / "a").settings
    assert not run_alone(settings, select=STAGES).failures
    assert documents(settings)[0] == 3
    assert requested() == ["books/ducks.md", "books/hens.md", "books/old/geese.md"]
    # Nothing has changed.
    assert not run_alone(settings, select=STAGES).failures
    assert requested() == []
    # One is changed, one deleted, one renamed, one is new.
    put(bucket, hens="# Hens\n\nSix eggs.", swans="# Swans\n\nNone.", new__geese="# Geese\n\nOne egg.")
    bucket.delete_objects(Delete={"Objects": [{"Key": "books/ducks.md"}, {"Key": "books/old/geese.md"}]})
    assert not run_alone(settings, select=STAGES).failures
    assert requested() == ["books/hens.md", "books/new/geese.md", "books/swans.md"]
    rebuilt = project(tmp_path / "b").settings
    assert not run_alone(rebuilt, select=STAGES).failures
    assert documents(settings)[:2] == documents(rebuilt)[:2]
    # An address may be that of one object.
    one = project(tmp_path / "c", "s3://library/books/new/geese.md").settings
    assert not run_alone(one, select=STAGES).failures
    assert documents(one)[0] == 1


def test_no_credential_is_in_any_file_or_message(tmp_path, bucket, caplog):
    put(bucket, hens="Five eggs.")
    settings = project(tmp_path / "a").settings
    assert not run_alone(settings, select=STAGES).failures
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path
    assert SECRET not in caplog.text
    with pytest.raises(ConfigError) as refused:
        project(tmp_path / "b", f"s3://AKIAEXAMPLE:{SECRET}@library/books")
    assert "without a user and password" in str(refused.value) and SECRET not in str(refused.value)


@pytest.mark.full
def test_a_killed_run_is_gone_on_with(tmp_path, bucket, requested):
    put(bucket, **{f"book{n}": f"Book {n}. " * 200 for n in range(40)})
    made = project(tmp_path / "a")
    command = [sys.executable, "-m", "mog_assets.cli", "run", "--config", str(made.config), "--select", "documents"]
    process = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    copies, deadline = made.settings.corpora["books"].path, time.monotonic() + 120
    noted = copies.with_name(copies.name + ".versions.json")
    while not noted.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = set(requested())
    assert not run_alone(made.settings, select=STAGES).failures
    after = requested()
    assert documents(made.settings)[0] == 40
    assert len(before) > 0 and len(after) < 40
    rebuilt = project(tmp_path / "b").settings
    assert not run_alone(rebuilt, select=STAGES).failures
    assert documents(made.settings)[1] == documents(rebuilt)[1]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("s3://nowhere/books", "expected a list of items from s3://nowhere/books"),
        ("s3://library/nothing", "no bucket, folder or object library/nothing"),
        ("gs://library", r"the package gcsfs to be installed .*pip install 'mog-assets\[gs\]'"),
    ],
)
def test_a_place_that_cannot_be_listed_is_told_with_the_remedy(tmp_path, bucket, source, message):
    settings = project(tmp_path / "a", source).settings
    (failure,) = run_alone(settings, select=STAGES).failures
    assert re.search(message, failure), failure


@pytest.mark.parametrize("missing", [True, False])
def test_a_bucket_that_does_not_know_who_calls_names_the_variables(tmp_path, bucket, monkeypatch, missing):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") if missing else ():
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    (failure,) = run_alone(project(tmp_path / "a", "s3://library/nothing").settings, select=STAGES).failures
    assert ("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE" in failure) == missing, failure


@pytest.mark.parametrize(
    ("address", "said", "named"),
    [
        ("s3://b", "An error occurred (InvalidAccessKeyId) when calling ListObjectsV2", "AWS_ACCESS_KEY_ID"),
        ("s3://b", "Access Denied.", "FSSPEC_S3_ANON=true"),
        ("az://b", "Must provide either a connection_string or account_name with credentials!!", "AZURE_STORAGE_"),
        ("s3://b", "The specified bucket does not exist", ""),
        ("memory://b", "Access Denied.", ""),
    ],
)
def test_what_stores_say_of_access_names_their_variables(address, said, named):
    message = _fault("c", address, "a list of items", OSError(said))
    assert (named in message and "in the environment, then run again" in message) if named else ": run again" in message


def test_objects_in_memory_are_read_like_those_of_a_bucket(tmp_path):
    import fsspec

    store = fsspec.filesystem("memory")
    store.pipe({"/shelf/hens.txt": b"Five eggs.", "/shelf/a\\b.txt": b"no file can be called so"})
    settings = project(tmp_path / "a", "memory://shelf").settings
    assert not run_alone(settings, select=STAGES).failures
    assert documents(settings)[0] == 1
    store.rm("/shelf", recursive=True)


@pytest.mark.whole
def test_a_corpus_has_a_path_or_a_source(tmp_path):
    path = tmp_path / "mog.yaml"
    path.write_text(yaml.safe_dump({"corpora": {"a": {"source": "ftp://there"}}}))
    with pytest.raises(ConfigError, match="corpora.a.source: expected .*, got 'ftp://there'") as refused:
        config.load(path)
    assert all(f"'{scheme}'" in str(refused.value) for scheme in ("s3", "gs", "az", "memory", "sql", "https"))
