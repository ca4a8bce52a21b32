"""Rows of a database as documents: SQLite, and a real Postgres on loopback."""

import json
import os
import signal
import sqlite3
import subprocess
import time

import pytest
from postgres import PASSWORD, running
from served import command, environment
from shared import ROOT, new_project, run_alone

from mog_assets.build.tools import Tools
from mog_assets.plugins.connectors import look_cache

STAGES = ["documents"]
QUERY = "SELECT id, title, body AS text, year, price, day, seen, raw FROM articles WHERE year > 1900"


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch):
    """Each look runs the query."""
    monkeypatch.setattr(look_cache, "FRESH_SECONDS", -1.0)


class Sqlite:
    """Articles in a file."""

    def __init__(self, folder):
        self.path = folder / "articles.sqlite"
        self.url = f"sqlite:///{self.path}"

    def run(self, *statements):
        with sqlite3.connect(self.path) as connection:
            for statement in statements:
                connection.execute(statement)


class Server:
    """Articles of a Postgres server."""

    def __init__(self, server):
        self.server = server
        self.url = f"postgresql+psycopg2://dagster:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{server.port}/postgres"

    def run(self, *statements):
        self.server.ask("; ".join(statements))


@pytest.fixture(scope="module")
def server():
    with running() as started:
        yield started


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path, monkeypatch):
    if request.param == "sqlite":
        made, kinds = Sqlite(tmp_path), ("REAL", "TEXT", "TEXT", "BLOB", "x'00ff'")
    else:
        made, kinds = Server(request.getfixturevalue("server")), ("NUMERIC", "DATE", "TIMESTAMP", "BYTEA", "'x'")
    price, day, seen, raw, content = kinds
    made.run(
        "DROP TABLE IF EXISTS articles",
        "CREATE TABLE articles (id INTEGER, title TEXT, body TEXT, year INTEGER, "
        f"price {price}, day {day}, seen {seen}, raw {raw})",
        *(
            f"INSERT INTO articles VALUES ({n}, 'Hen {n}', 'Hen {n} lays 100 % of: {n}::eggs.', 2000, "
            f"2.5, '2026-05-01', NULL, {content})"
            for n in range(60)
        ),
    )
    monkeypatch.setenv("ARTICLES_URL", made.url)
    return made


def project(folder, query=QUERY, variable="ARTICLES_URL"):
    return new_project(folder, {"corpora": {"articles": {"source": f"sql://{variable}/{query}"}}}).settings


def built(settings):
    assert not run_alone(settings, select=STAGES).failures
    return documents(settings)


def documents(settings):
    import pyarrow.parquet as pq

    artefact = Tools(settings).store.read("documents", "articles")
    rows = [row for name in artefact.names("bucket") for row in pq.read_table(artefact.path(name)).to_pylist()]
    keep = {row["id"]: (row["title"], row["text"], {**json.loads(row["metadata"]), "mog": None}) for row in rows}
    return keep, artefact.manifest.info["recomputed"]


def test_a_table_is_followed_row_by_row_as_a_rebuild_would_have_it(tmp_path, database):
    settings = project(tmp_path / "a")
    rows, recomputed = built(settings)
    assert len(rows) == recomputed["documents read"] == 60
    values = {"year": 2000, "price": 2.5, "day": "2026-05-01", "seen": None, "mog": None}
    assert rows["7"] == ("Hen 7", "Hen 7 lays 100 % of: 7::eggs.", values)
    database.run(
        "UPDATE articles SET body = 'Hen 7 is a cock.' WHERE id = 7",
        "DELETE FROM articles WHERE id = 8",
        "UPDATE articles SET id = 100 WHERE id = 9",
        "UPDATE articles SET year = 1800 WHERE id = 10",
        "INSERT INTO articles (id, title, body, year) VALUES (200, NULL, 'New hen.', 2001)",
    )
    rows, recomputed = built(settings)
    assert len(rows) == 59 and recomputed["documents read"] == 3 and recomputed["documents unchanged"] == 56
    assert rows["7"][1] == "Hen 7 is a cock." and rows["200"][0] == "" and not {"8", "9", "10"} & set(rows)
    assert built(project(tmp_path / "b"))[0] == rows
    # Nothing has changed: nothing is copied.
    assert built(settings)[1] == recomputed


def test_a_row_without_a_text_is_its_values_and_what_cannot_be_used_is_skipped(tmp_path, database):
    database.run("UPDATE articles SET title = '' WHERE id = 3", "INSERT INTO articles (id, year) VALUES (3, 2000)")
    rows, _ = built(project(tmp_path / "a", "SELECT id, title, year FROM articles WHERE id < 5"))
    assert rows["4"] == ("Hen 4", "id: 4\ntitle: Hen 4\nyear: 2000", {"year": 2000, "mog": None})
    assert set(rows) == {"0", "1", "2", "3", "4"}


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT body FROM articles", "a column `id`"),
        ("SELECT nothing FROM articles", "nothing"),
        ("DELETE FROM articles", ""),
        ("", "sql://VARIABLE/QUERY"),
    ],
)
def test_a_query_that_fails_changes_nothing_and_no_password_is_told(tmp_path, database, query, reason, caplog):
    settings = project(tmp_path / "a")
    rows, _ = built(settings)
    changed = project(tmp_path / "a", query or " ")
    failures = str(run_alone(changed, select=STAGES).failures)
    assert failures != "[]" and reason in failures
    assert documents(settings)[0] == rows == built(settings)[0]
    for path in tmp_path.rglob("*"):
        if path.is_file() and isinstance(database, Server):
            assert PASSWORD.encode() not in path.read_bytes(), path
    assert PASSWORD not in failures + caplog.text


@pytest.mark.parametrize(
    "url", ["", "no url", "nosuch://host/db", "postgresql+psycopg2://dagster:hush@127.0.0.1:1/none"]
)
def test_a_database_that_cannot_be_opened_is_told_without_its_password(tmp_path, monkeypatch, url):
    monkeypatch.setenv("OTHER", url)
    failures = str(run_alone(project(tmp_path / "a", variable="OTHER"), select=STAGES).failures)
    assert "corpora.articles.source: expected a list of items" in failures and "hush" not in failures


@pytest.mark.full
def test_a_server_that_is_killed_and_a_run_that_is_killed_lose_nothing(tmp_path, server, monkeypatch):
    made = Server(server)
    many = "SELECT n AS id, repeat('hen ' || n || ' ', 200) AS text FROM generate_series(1, 20000) AS t (n)"
    monkeypatch.setenv("ARTICLES_URL", made.url)
    settings = project(tmp_path / "a", many.replace("20000", "300"))
    rows, _ = built(settings)
    server.kill()
    assert "corpora.articles.source" in str(run_alone(settings, select=STAGES).failures)
    assert documents(settings)[0] == rows
    server.start()
    more = project(tmp_path / "a", many)
    words = command("run", "--select", "documents", "--config", tmp_path / "a" / "mog.yaml")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(words, cwd=ROOT, env=environment(ARTICLES_URL=made.url), **quiet)
    copies, end = tmp_path / "a" / "home" / "cache" / "sources" / "articles", time.monotonic() + 120
    while process.poll() is None and time.monotonic() < end and len(list(copies.glob("*"))) < 60:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert len(built(more)[0]) == 20_000
