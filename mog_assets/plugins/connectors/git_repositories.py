"""Files of a Git repository as items of a source: `git+https://host/owner/name.git#BRANCH:FOLDER`.

Read by the program `git`, with the credentials that it knows (its helpers, the agent of SSH). Without a branch it is
that of `HEAD`, without a folder the whole tree. The version of a file is the name of its blob.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from threading import Lock

from mog_assets.documents.folders import suffix_of
from mog_assets.documents.sources import SOURCES, Item, Refusal, Source, is_name
from mog_assets.plugins.connectors.look_cache import LookCache

_SCHEMES = ("https", "http", "ssh", "file")
# As `git check-ref-format` has it, without what could be an option, a pattern or another form of a name.
_BRANCH = re.compile(r"(?!-)(?!.*\.\.)[^\x00-\x20~^:?*\[\\]+")
# The look at a repository is one request, if its branch is where it was; those within a run are one.
_LOOK_SECONDS = 10.0
_PLACES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY")
# A branch is fetched within this, or the repository counts as down; it may be large.
_SECONDS = 1800.0
_MOST_BYTES = 1 << 28
# Files that are written at a time.
_TOGETHER = 8
_POINTER = b"version https://git-lfs.github.com/spec/"
_SKIPPED = {"120000": "a symbolic link, which is not followed", "160000": "a submodule, which is a source of its own"}


class _Repository:
    """The files of a branch, as a look at it found them.

    Args:
        url: Of the repository.
        reference: The full name of a branch or tag.
        folder: In the repository; empty for the whole.
    """

    def __init__(self, url: str, reference: str, folder: str) -> None:
        self._alone = Lock()
        # What failed once, such as a folder that was cleared away, is not asked again.
        self.usable = True
        # Gives one file after another: a process for each would take 2 ms.
        self._blobs: subprocess.Popen[bytes] | None = None
        # It goes with this look.
        self._home = tempfile.TemporaryDirectory(prefix="mog-git-")
        self._git("init", "-q", "--bare")
        self._git("config", "remote.origin.url", url)
        self._git("config", "remote.origin.promisor", "true")
        # The names of all files, without what is in them if the server can leave it out.
        self._git("fetch", "-q", "--no-tags", "--depth=1", "--filter=blob:none", "origin", reference)
        self.commit = self._git("rev-parse", "FETCH_HEAD^{commit}").decode().strip()
        tree = f"{self.commit}:{folder}" if folder else self.commit
        try:
            listing = self._git("ls-tree", "-r", "-z", "--full-tree", tree).decode("utf-8", "surrogateescape")
        except OSError as error:
            raise FileNotFoundError(f"a folder {folder!r} in {reference}, and there is none") from error
        self.items: dict[str, Item] = {}
        for entry in filter(None, listing.split("\0")):
            facts, _, name = entry.partition("\t")
            mode, _, blob = facts.split(" ")
            hidden = any(part.startswith(".") for part in PurePosixPath(name).parts)
            if hidden or (mode != "160000" and not suffix_of(name)):
                continue
            refusal = _SKIPPED.get(mode, "" if is_name(name) else "expected a name that a file may have")
            self.items[name] = Item(blob, refusal=refusal)

    def prepare(self, names: Sequence[str]) -> None:
        """Fetch what the files have that are not here yet, in one request."""
        parts = self._git("rev-list", "--objects", "--missing=print", "--no-object-names", self.commit).decode().split()
        absent = {part[1:] for part in parts if part.startswith("?")}
        blobs = sorted({self.items[name].version for name in names} & absent)
        if blobs:
            options = ("--no-tags", "--no-write-fetch-head", "--recurse-submodules=no", "--filter=blob:none", "--stdin")
            quick = ("-c", "fetch.negotiationAlgorithm=noop")
            self._git(*quick, "fetch", "-q", "origin", *options, written="".join(f"{blob}\n" for blob in blobs))

    def read(self, name: str) -> bytes:
        """Return the bytes of a file."""
        with self._alone:
            if self._blobs is None:
                command = self._command("cat-file", "--batch")
                pipe = subprocess.PIPE
                self._blobs = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=_environment())
            requests, answers = self._blobs.stdin, self._blobs.stdout
            assert requests is not None and answers is not None
            try:
                requests.write(f"{self.items[name].version}\n".encode())
                requests.flush()
                head = answers.readline().decode().split()
                if len(head) != 3:
                    raise OSError(f"git has not what {name} has")
                content, size = b"", int(head[2])
                # What nobody reads goes by in pieces.
                for at in range(0, size + 1, _MOST_BYTES):
                    content = answers.read(min(_MOST_BYTES, size + 1 - at))
            except OSError:
                self.usable = False
                self._blobs.kill()
                raise
        if size > _MOST_BYTES:
            raise Refusal(f"{size:,} bytes; at most {_MOST_BYTES:,} are read")
        if content.startswith(_POINTER):
            raise Refusal("kept in Git LFS, which is not read")
        return content[:-1]

    def _command(self, *arguments: str) -> list[str]:
        return ["git", "--git-dir", self._home.name, *arguments]

    def _git(self, *arguments: str, written: str = "") -> bytes:
        try:
            return _run(self._command(*arguments), written)
        except OSError:
            self.usable = False
            raise


def _environment() -> dict[str, str]:
    """Return that of this process, in which Git asks nobody and runs no helper that an address names."""
    variables = {name: value for name, value in os.environ.items() if name not in _PLACES}
    ssh = variables.get("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
    return {**variables, "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": ":".join(_SCHEMES), "GIT_SSH_COMMAND": ssh}


def _run(command: Sequence[str], written: str = "") -> bytes:
    try:
        done = subprocess.run(
            command, input=written.encode(), capture_output=True, env=_environment(), timeout=_SECONDS, check=False
        )
    except FileNotFoundError:
        raise OSError("the program `git` to be installed, and it is not") from None
    except subprocess.TimeoutExpired:
        raise OSError(f"git to answer in {_SECONDS:.0f} s") from None
    if done.returncode:
        raise OSError(done.stderr.decode("utf-8", "replace").strip() or f"git ended with {done.returncode}")
    return done.stdout


def _looked(address: str, previous: dict[str, _Repository]) -> _Repository:
    url, _, place = address.partition("#")
    branch, _, folder = place.partition(":")
    branch, folder = branch or "HEAD", folder.strip("/")
    if not _BRANCH.fullmatch(branch) or (folder and not is_name(folder)):
        raise ValueError(
            "git+https://host/path.git#BRANCH:FOLDER, with a branch or tag, and a folder, that Git may have"
        )
    repository = previous.get(address)
    reference, commit = _head(url, branch)
    if repository is None or not repository.usable or repository.commit != commit:
        repository = previous[address] = _Repository(url, reference, folder)
    return repository


def _head(url: str, branch: str) -> tuple[str, str]:
    """Return the full name of a branch or tag, and its commit: one request."""
    names = ["HEAD"] if branch == "HEAD" else [f"refs/heads/{branch}", f"refs/tags/{branch}"]
    answer = _run(["git", "ls-remote", "--", url, *names, f"{names[-1]}^{{}}"]).decode()
    heads = {name: commit for commit, name in (line.split("\t") for line in answer.splitlines())}
    for name in names:
        if name in heads:
            return name, heads.get(f"{name}^{{}}", heads[name])
    raise FileNotFoundError(f"a branch or tag {branch!r}, and there is none")


_REPOSITORIES: LookCache[_Repository] = LookCache(partial(_looked, previous={}))


def _items(scheme: str, place: str) -> Mapping[str, Item]:
    return _REPOSITORIES(f"{scheme}://{place}", _LOOK_SECONDS).items


# What is read is of the look that listed it.
def _prepare(scheme: str, place: str, names: Sequence[str]) -> None:
    _REPOSITORIES(f"{scheme}://{place}", math.inf).prepare(names)


def _read(scheme: str, place: str, name: str) -> bytes:
    return _REPOSITORIES(f"{scheme}://{place}", math.inf).read(name)


for _scheme in _SCHEMES:
    _source = Source(partial(_items, _scheme), partial(_read, _scheme), _TOGETHER, partial(_prepare, _scheme))
    SOURCES.register(f"git+{_scheme}", _source)
