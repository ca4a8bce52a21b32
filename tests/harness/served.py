"""A running `mog serve`, and what a test asks of it."""

import contextlib
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

from shared import ROOT, VARIABLES

START_SECONDS, END_SECONDS = 120, 30


def environment(**more):
    own = {name: value for name, value in os.environ.items() if name not in {*VARIABLES, "MOG_API_KEY"}}
    return {**own, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **more}


def command(*words):
    return [sys.executable, "-m", "mog_assets.cli", *map(str, words)]


def ran(folder, *words, **more):
    """What a command prints that is run in a folder and succeeds."""
    done = subprocess.run(
        command(*words), cwd=folder, env=environment(**more), capture_output=True, text=True, timeout=1200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


STAND_IN = (sys.executable, str(ROOT / "tests" / "harness" / "stand_in.py"))


class Served:
    """`mog serve` on a free port.

    Args:
        config: Of its project.
        folder: For its log.
        options: Of `mog serve`.
        key: That it asks for.
        program: What runs `mog serve`.
        files: Limits of open files, soft and hard.
        log: Its log; by default a file in the folder.
    """

    def __init__(self, config, folder, *options, key="", program=None, files=None, log=None):
        self.log, self.key = log or folder / "serve.log", key
        more = {"MOG_API_KEY": key} if key else {}
        start = program or command("serve")
        with self.log.open("wb") as stream:
            self.process = subprocess.Popen(
                [*start, "--config", str(config), "--port", "0", *map(str, options)],
                preexec_fn=files and (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, files)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stream,
                env=environment(**more),
                text=True,
            )
        assert self.process.stdout is not None
        # The URL comes when requests are answered.
        self.url = self.process.stdout.readline().strip()
        assert self.url, self.log.read_text() if self.log.is_file() else "no URL"
        self.host, self.port = urlsplit(self.url).hostname, urlsplit(self.url).port

    def call(self, path, body=None, headers=(), method=None):
        """Status, headers and body, which is parsed if it is JSON."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        own = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        if body is not None:
            own["Content-Type"] = "application/json"
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        with contextlib.closing(connection):
            # A body that is refused is not read to its end; the answer is there all the same.
            with contextlib.suppress(BrokenPipeError):
                connection.request(method or ("GET" if body is None else "POST"), path, body, {**own, **dict(headers)})
            answer = connection.getresponse()
            data = answer.read()
        if data and "json" in answer.headers.get("content-type", ""):
            data = json.loads(data)
        return answer.status, answer.headers, data

    def socket(self, text=b""):
        opened = socket.create_connection((self.host, self.port), timeout=30)
        opened.sendall(text)
        return opened

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.stdout.close()
        return self.process.wait()


def received(opened):
    """All that comes until the connection is closed, and the seconds it took."""
    started, parts = time.monotonic(), []
    with contextlib.suppress(ConnectionResetError):
        while part := opened.recv(1 << 16):
            parts.append(part)
    return b"".join(parts), time.monotonic() - started
