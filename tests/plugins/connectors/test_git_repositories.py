"""Files of a Git repository as documents: a real one, served over HTTP on loopback, whose requests are counted."""

import base64
import gzip
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from served import environment
from shared import ROOT, new_project, run_alone

from mog_assets import config
from mog_assets.build.tools import Tools
from mog_assets.plugins.connectors import git_repositories
from mog_assets.resources.errors import ConfigError

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="the program git is not installed")
STAGES = ["documents"]
SECRET = "ghp_wJalrXUtnFEMIK7MDENGbPxRfiCY"


class Served:
    """A repository with a working tree, and a server of it.

    Attributes:
        url: Of the server, `http://…/repository.git`.
        requests: Methods and paths.
        wants: Names of objects that were asked for.
        answers: Called before each request is answered.
        password: That callers need, if any.
    """

    def __init__(self, folder):
        self.folder, self.requests, self.wants = folder, [], []
        self.answers, self.password = lambda path: None, ""
        folder.mkdir()
        self.git("init", "-q", "-b", "main")
        for key in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
            self.git("config", key, "true")
        served, root = self, str(folder)

        class Handler(BaseHTTPRequestHandler):
            # A body that waits for the acknowledgement of its head takes 40 ms more.
            disable_nagle_algorithm = True

            def do_GET(self):
                self.do_POST()

            def do_POST(self):
                content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = urlsplit(self.path)
                served.requests.append((self.command, parts.path))
                words = gzip.decompress(content) if self.headers.get("Content-Encoding") == "gzip" else content
                served.wants += re.findall(rb"want ([0-9a-f]{40})", words)
                if served.answers(parts.path) == 503:
                    return self.send_error(503)
                token = base64.b64encode(f"reader:{served.password}".encode()).decode()
                if served.password and self.headers.get("Authorization") != f"Basic {token}":
                    self.send_response(401)
                    self.send_header("WWW-Authenticate", 'Basic realm="git"')
                    self.send_header("Content-Length", "0")
                    return self.end_headers()
                given = {
                    "GIT_PROJECT_ROOT": root,
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "PATH_INFO": parts.path.removeprefix("/repository.git"),
                    "QUERY_STRING": parts.query,
                    "REQUEST_METHOD": self.command,
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "CONTENT_LENGTH": str(len(content)),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                }
                given["GIT_PROJECT_ROOT"] = f"{root}/.git"
                command = ["git", "http-backend"]
                answer = subprocess.run(command, input=content, capture_output=True, env={**os.environ, **given}).stdout
                head, _, body = answer.partition(b"\r\n\r\n")
                fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
                self.send_response(int(fields.pop("Status", "200").split()[0]))
                for name, value in {**fields, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/repository.git"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def git(self, *words):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
        done = subprocess.run(["git", "-C", str(self.folder), *identity, *words], check=True, capture_output=True)
        return done.stdout.decode().strip()

    def commit(self, files, gone=()):
        """Write files, delete others, and commit."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for name in gone:
            (self.folder / name).unlink()
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "more")

    def blob(self, name):
        return self.git("rev-parse", f"HEAD:{name}").encode()


@pytest.fixture
def served(tmp_path, monkeypatch):
    monkeypatch.setattr(git_repositories, "_LOOK_SECONDS", -1.0)
    opened = Served(tmp_path / "repository")
    opened.commit(
        {"docs/hens.md": "# Hens\n\nFive eggs.\n", "docs/more/ducks.txt": "Nine eggs.\n", "code.xyz": "int x;\n"}
    )
    yield opened
    opened.server.shutdown()
    opened.server.server_close()


def project(folder, source):
    return new_project(folder, {"corpora": {"manual": {"source": source}}}).settings


def documents(settings):
    import pyarrow.parquet as pq

    artefact = Tools(settings).store.read("documents", "manual")
    tables = [pq.read_table(artefact.path(name)) for name in artefact.names("bucket")]
    texts = {row["id"]: row["text"] for table in tables for row in table.to_pylist()}
    skipped = pq.read_table(artefact.path("skipped.parquet")).to_pylist()
    return texts, {row["place"]: row["reason"] for row in skipped}, artefact.manifest


def built(settings):
    report = run_alone(settings, select=STAGES)
    assert not report.failures, report.failures
    return documents(settings)


def failure(settings):
    return str(run_alone(settings, select=STAGES).failures)


def test_a_branch_is_followed_file_by_file_and_what_did_not_change_is_not_sent_again(tmp_path, served):
    source = f"git+{served.url}#main:docs"
    settings = project(tmp_path / "a", source)
    texts, skipped, _ = built(settings)
    assert texts == {"hens.md": "# Hens\n\nFive eggs.\n", "more/ducks.txt": "Nine eggs.\n"} and not skipped
    assert served.blob("docs/hens.md") in served.wants and served.blob("code.xyz") not in served.wants
    del served.requests[:], served.wants[:]
    built(settings)
    assert not served.wants and all("upload-pack" in path or "info/refs" in path for _, path in served.requests)
    before = served.blob("docs/hens.md")
    served.commit({"docs/hens.md": "Six eggs.\n", "docs/geese.md": "One egg.\n", "elsewhere.md": "No.\n"})
    served.git("mv", "docs/more/ducks.txt", "docs/moved.txt")
    served.commit({})
    texts, _, manifest = built(settings)
    assert texts == {"geese.md": "One egg.\n", "hens.md": "Six eggs.\n", "moved.txt": "Nine eggs.\n"}
    blobs = {served.blob(f"docs/{name}") for name in ("hens.md", "geese.md", "moved.txt")}
    assert blobs <= set(served.wants) and not {before, served.blob("elsewhere.md")} & set(served.wants)
    served.commit({}, gone=["docs/geese.md"])
    assert set(built(settings)[0]) == {"hens.md", "moved.txt"}
    assert built(project(tmp_path / "b", source))[2].version == documents(settings)[2].version != manifest.version


def test_branches_tags_and_head_are_named_whole(tmp_path, served):
    served.git("tag", "-a", "v1", "-m", "first")
    served.git("branch", "release/main")
    served.commit({"docs/hens.md": "Six eggs.\n"})
    for name, eggs in (("v1", "Five"), ("release/main", "Five"), ("main", "Six"), ("", "Six")):
        texts, _, _ = built(project(tmp_path / f"p{len(name)}", f"git+{served.url}#{name}:docs"))
        assert eggs in texts["hens.md"], name
    # Another branch that ends with the same name is another.
    settings = project(tmp_path / "again", f"git+{served.url}#main")
    assert set(built(settings)[0]) == {"docs/hens.md", "docs/more/ducks.txt"}
    served.git("branch", "-f", "release/main")
    assert set(built(settings)[0]) == {"docs/hens.md", "docs/more/ducks.txt"}


def test_what_is_no_file_of_text_is_skipped_with_the_reason(tmp_path, served, monkeypatch):
    monkeypatch.setattr(git_repositories, "_MOST_BYTES", 300)
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"
    served.commit({"docs/a.md": "a" * 1000, "docs/large.md": pointer, "docs/.hidden.md": "No.", "docs/a\\b.md": "No."})
    (served.folder / "docs/link.md").symlink_to("/etc/passwd")
    other = Served(tmp_path / "other")
    other.commit({"a.md": "Other.\n"})
    served.git("submodule", "add", "-q", str(other.folder), "docs/other")
    other.server.shutdown()
    served.commit({})
    texts, skipped, _ = built(project(tmp_path / "a", f"git+{served.url}#main:docs"))
    assert set(texts) == {"hens.md", "more/ducks.txt"}
    assert {name: reason.split(",")[0] for name, reason in skipped.items()} == {
        "a.md": "1",
        "large.md": "kept in Git LFS",
        "link.md": "a symbolic link",
        "other": "a submodule",
        "a\\b.md": "expected a name that a file may have",
    }


@pytest.mark.full
def test_an_outage_or_a_kill_loses_nothing_and_the_next_run_goes_on(tmp_path, served):
    source = f"git+{served.url}#main:docs"
    settings = project(tmp_path / "a", source)
    before = built(settings)[2].version
    served.commit({f"docs/page{number}.md": f"Page {number}.\n" for number in range(40)})
    served.answers = lambda path: 503
    assert "503" in failure(settings) and documents(settings)[2].version == before
    # The second request for objects, which is that for what is in the files, waits: the run is killed there.
    posts, waiting = [], threading.Event()

    def stalled(path):
        posts.append(path) if path.endswith("git-upload-pack") else None
        if served.wants and served.blob("docs/page7.md") in served.wants:
            waiting.set()
            time.sleep(30)

    served.answers = stalled
    words = [sys.executable, "-m", "mog_assets.cli", "run", "--select", "documents", "--config"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([*words, str(tmp_path / "a/mog.yaml")], cwd=ROOT, env=environment(), **quiet)
    assert waiting.wait(120)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert documents(settings)[2].version == before
    served.answers = lambda path: None
    texts, _, manifest = built(settings)
    assert len(texts) == 42 and built(project(tmp_path / "b", source))[2].version == manifest.version


def test_what_was_fetched_and_cleared_away_is_fetched_again(served):
    address = f"{served.url}#main:docs"
    first = git_repositories._REPOSITORIES(address)
    assert git_repositories._REPOSITORIES(address, -1.0) is first
    shutil.rmtree(first._home.name)
    # What runs on, such as a code location, fails once, and not for ever.
    with pytest.raises(OSError, match="not a git repository"):
        first.prepare(["hens.md"])
    second = git_repositories._REPOSITORIES(address, -1.0)
    second.prepare(["hens.md"])
    assert second.read("hens.md") == b"# Hens\n\nFive eggs.\n"
    # So does one whose process ended.
    second._blobs.kill()
    second._blobs.wait()
    with pytest.raises(OSError):
        second.read("hens.md")
    assert git_repositories._REPOSITORIES(address, -1.0).read("more/ducks.txt") == b"Nine eggs.\n"


def test_a_password_comes_from_git_and_is_stored_nowhere(tmp_path, served, monkeypatch):
    served.password = SECRET
    settings = project(tmp_path / "a", f"git+{served.url}#main:docs")
    assert "could not read Username" in failure(settings)
    helper = f"!f() {{ echo username=reader; echo password={SECRET}; }}; f"
    for name, value in {"COUNT": "1", "KEY_0": "credential.helper", "VALUE_0": helper}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    assert len(built(settings)[0]) == 2
    files = [path for path in (tmp_path / "a").rglob("*") if path.is_file()]
    assert files and not any(SECRET.encode() in path.read_bytes() for path in files)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("#nothing", "a branch or tag 'nothing', and there is none"),
        ("#main:nowhere", "a folder 'nowhere' in refs/heads/main, and there is none"),
        ("#--upload-pack=touch x", "with a branch or tag, and a folder, that Git may have"),
        ("#main:../..", "with a branch or tag, and a folder, that Git may have"),
    ],
)
def test_a_wrong_place_is_told(tmp_path, served, address, message):
    assert message in failure(project(tmp_path / "a", f"git+{served.url}{address}"))


def test_an_address_with_a_password_is_refused(tmp_path):
    for user in ("token@", "me:secret@", "git:secret@"):
        source = f"git+https://{user}example.org/a.git"
        with pytest.raises(ConfigError, match="without a user and password"):
            config.parse({"corpora": {"a": {"source": source}}}, tmp_path / "mog.yaml")
    settings = config.parse({"corpora": {"a": {"source": "git+ssh://git@example.org/a.git"}}}, tmp_path / "mog.yaml")
    assert settings.corpora["a"].source == "git+ssh://git@example.org/a.git"
