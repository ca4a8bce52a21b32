"""A Postgres server of a test: started here, in a temporary folder, on a free port, by a user who is not root."""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

PASSWORD = "not secret"
START_SECONDS, END_SECONDS = 60, 30


def binaries():
    """The folder with `initdb` and `postgres`: of Debian's newest version, or of the path; None if there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    named = shutil.which("initdb")
    return found[-1].parent if found else Path(named).resolve().parent if named else None


class Postgres:
    """One server; `kill` is SIGKILL, after which `start` starts it again on what is on the disk."""

    def __init__(self, folder, programs):
        self.folder, self.programs, self.process = folder, programs, None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        # Postgres refuses to run as root.
        self.user = None
        if os.getuid() == 0:
            names = {entry.pw_name for entry in pwd.getpwall()}
            self.user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
            os.chown(folder, self.user.pw_uid, self.user.pw_gid)
        password = folder / "password"
        password.write_text(PASSWORD, encoding="ascii")
        options = ["--username=dagster", "--auth=scram-sha-256", f"--pwfile={password}", "--encoding=UTF8"]
        self._run("initdb", "-D", folder / "data", "--no-sync", "--locale=C", *options)

    def _command(self, program, *arguments):
        own = [] if self.user is None else {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}
        return [self.programs / program, *arguments], own or {}

    def _run(self, program, *arguments):
        command, identity = self._command(program, *arguments)
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder, timeout=START_SECONDS, **identity)

    def start(self):
        """Start the server, and wait until it answers; after a kill it first recovers."""
        options = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": self.folder}
        command, identity = self._command("postgres", "-D", self.folder / "data")
        command += [f"--{name}={value}" for name, value in options.items()]
        with (self.folder.parent / f"{self.folder.name}.log").open("ab") as log:
            deadline = time.monotonic() + START_SECONDS
            while not self.answers():
                # What is left of the killed server may hold its memory for a moment.
                if self.process is None or self.process.poll() is not None:
                    self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, **identity)
                assert time.monotonic() < deadline, "Postgres did not start"
                time.sleep(0.1)

    def answers(self):
        done = subprocess.run(
            [self.programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)], timeout=START_SECONDS
        )
        return done.returncode == 0

    def kill(self):
        """Kill the server as a power failure does: nothing of it ends in order."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(END_SECONDS)
        self.process = None

    def stop(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(END_SECONDS)
            self.process.kill()
            self.process.wait(END_SECONDS)
            self.process = None

    def ask(self, statement, database="postgres"):
        """What psql prints."""
        psql = self.programs / "psql"
        command = [psql, "-X", "-At", "-h", "127.0.0.1", "-p", str(self.port), "-U", "dagster", "-c", statement]
        environment = {**os.environ, "PGPASSWORD": PASSWORD}
        done = subprocess.run([*command, database], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def variables(self, database):
        """What deploy/dagster.yaml reads from the environment."""
        return {
            "DAGSTER_POSTGRES_HOST": "127.0.0.1",
            "DAGSTER_POSTGRES_PORT": str(self.port),
            "DAGSTER_POSTGRES_USER": "dagster",
            "DAGSTER_POSTGRES_PASSWORD": PASSWORD,
            "DAGSTER_POSTGRES_DB": database,
        }


@contextlib.contextmanager
def running():
    """A server that ends with the test; skipped where there is no Postgres."""
    programs = binaries()
    if programs is None:
        pytest.skip("Postgres is not installed, and .ci/run could not install it (Debian's package postgresql)")
    # The folder of a test lies below one that only root may enter.
    with tempfile.TemporaryDirectory(prefix="mog-postgres-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        place = Path(folder) / "server"
        place.mkdir()
        server = Postgres(place, programs)
        try:
            server.start()
            yield server
        finally:
            server.stop()
