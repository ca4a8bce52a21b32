"""Of the texts that have a typed name, those that define it come first."""

import pytest

from mog_assets.search.definitions import DECLARED, HEADED, MENTIONED, NAMED, Definitions

BELOW = "\n\nThe number of callers that are shown of each error. More is slower."


@pytest.mark.parametrize(
    ("name", "text", "rank"),
    [
        # Terms and headings of several formats.
        ("--num-callers", f"--num-callers=<number> [default: 12]{BELOW}", HEADED),
        ("UV_THREADPOOL_SIZE", f"### `UV_THREADPOOL_SIZE=size`{BELOW}", HEADED),
        ("SQLITE_BUSY", f"(5) SQLITE_BUSY{BELOW}", HEADED),
        ("gc.auto", f"It is packed.\ngc.auto\n{BELOW.strip()}", HEADED),
        ("fs.readFile", f"fs.readFile(path[, options], callback)#\n\nAdded in: v0.1.29{BELOW}", HEADED),
        ("work_mem()", f"20.4.1. work_mem (integer){BELOW}", HEADED),
        ("fs.stat", f"fs.stat(path)#\n\nHistory\n\nVersion | Changes\nv7.0.0 | It is required.{BELOW}", HEADED),
        ("Wartezeit", f"## Wartezeit{BELOW}", HEADED),
        # Declarations, and lines that go on.
        ("sqlite3_busy_timeout", "int sqlite3_busy_timeout(sqlite3*, int ms);", DECLARED),
        ("SQLITE_BUSY", "#define SQLITE_BUSY         5   /* The database file is locked */", DECLARED),
        ("read_rows", "    def read_rows(path):\n        return path".lstrip(), DECLARED),
        ("MAX_ROWS", "MAX_ROWS = 500", DECLARED),
        ("work_mem", f"work_mem = '4MB'{BELOW}", DECLARED),
        ("-v", "-v, --verbose  Say more.", DECLARED),
        # Headings of more than the name, and sentences about it.
        ("cg_annotate", f"\n\nRunning cg_annotate{BELOW}", NAMED),
        ("PGPORT", "PGPORT behaves the same as the port connection parameter.", NAMED),
        # Lists of links, release notes, paragraphs that are broken into lines, rows of a table, other names.
        ("uv_run", "uv_init\nuv_loop\nuv_stop\nuv_run\nuv_close\nuv_walk", MENTIONED),
        ("--num-callers", "- The limit of --num-callers was raised to 500 in\n  this release, as asked.", MENTIONED),
        ("--quiet", "this is what happens to them when you call it with\n--quiet or without a\nterminal.", MENTIONED),
        ("uv_run", "uv_run | the loop\nuv_stop | its end", MENTIONED),
        ("--num", "--num-callers=<number>\n\nThe number of callers.", 0),
        ("gc.auto", "gc.autoDetach\n\nWhether it returns at once.", 0),
    ],
)
def test_a_piece_has_a_name_as_a_definition_or_as_a_mention(name, text, rank):
    assert Definitions(name).rank(text, 0, len(text)) == rank


@pytest.mark.parametrize(
    ("name", "title", "document", "named"),
    [
        ("sqlite3_open", "sqlite3_open", "c3ref/a.html", True),
        ("git-rebase", "git-rebase(1)", "a.html", True),
        ("git-rebase", "git-rebase - Reapply commits", "a.html", True),
        ("fs.readFile", "Node.js | fs.readFile()", "a.html", True),
        ("git-rebase", "Manual", "git/git-rebase.html", True),
        ("git-rebase", "About git-rebase and others", "a.html", False),
        ("open", "sqlite3_open", "open_v2.html", False),
    ],
)
def test_a_document_is_of_a_name_by_its_title_or_its_file(name, title, document, named):
    assert Definitions(name).named(title, document) is named
