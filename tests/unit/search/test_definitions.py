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
        ("max_connections", "server:\n  max_connections: 500  # more are refused", DECLARED),
        ("retry_policy", "\nretry_policy:\n  attempts: 5", DECLARED),
        ("order_queue", "[tool.order_queue]\nsize = 5", DECLARED),
        ("order_id", "    order_id BIGINT PRIMARY KEY,", DECLARED),
        ("getResult", "    public String getResult()\n    {", DECLARED),
        ("getEdges", "  getEdges (nodes, filter) {", DECLARED),
        ("GetType", "Type::Code Column::GetType(const std::string& name) {", DECLARED),
        ("addRow", "static bool addRow(Table *table,\n    int row)", DECLARED),
        ("MAX_ROWS", "MAX_ROWS = 500", DECLARED),
        ("work_mem", f"work_mem = '4MB'{BELOW}", DECLARED),
        ("-v", "-v, --verbose  Say more.", DECLARED),
        ("--quiet", "       -q, --quiet   Print errors only.", DECLARED),
        ("--dry-run", f"       -n, --dry-run\n              {BELOW.strip()}", HEADED),
        # What follows a keyword, wherever the line begins.
        ("read_rows", "class A:\n    def read_rows(path):\n        return path", HEADED),
        ("RowReader", "export default class RowReader<T> extends Reader {", HEADED),
        ("RowReader", "interface RowReader", HEADED),
        ("PersistentFlags", "func (c *Command) PersistentFlags() *flag.FlagSet {", HEADED),
        ("Command", "type Command struct {", HEADED),
        ("RowSet", "pub(crate) struct RowSet<S> {", HEADED),
        ("is_open", "    pub async fn is_open(&self) -> bool {", HEADED),
        ("isOpen", "export const isOpen = async (path: string): Promise<boolean> => {", HEADED),
        ("late_orders", "CREATE OR REPLACE VIEW late_orders AS", HEADED),
        ("orders", "CREATE TABLE IF NOT EXISTS orders (", HEADED),
        ("shipped_at", "ALTER TABLE orders ADD COLUMN shipped_at TIMESTAMP;", HEADED),
        # Headings of more than the name, and sentences about it.
        ("cg_annotate", f"\n\nRunning cg_annotate{BELOW}", NAMED),
        ("PGPORT", "PGPORT behaves the same as the port connection parameter.", NAMED),
        # Lists of links, release notes, paragraphs that are broken into lines, rows of a table, other names.
        ("uv_run", "uv_init\nuv_loop\nuv_stop\nuv_run\nuv_close\nuv_walk", MENTIONED),
        ("--num-callers", "- The limit of --num-callers was raised to 500 in\n  this release, as asked.", MENTIONED),
        ("--quiet", "this is what happens to them when you call it with\n--quiet or without a\nterminal.", MENTIONED),
        ("uv_run", "uv_run | the loop\nuv_stop | its end", MENTIONED),
        # Uses of a name, and sentences with a keyword.
        ("readRows", "  return readRows(path);", MENTIONED),
        ("readRows", "    if (readRows(path)) {", MENTIONED),
        (
            "readRows",
            "readRows(\n    path,\n    500,\n)\nIt is read from the first row to the last of them, or to the 500th.",
            MENTIONED,
        ),
        ("RowReader", "const RowReader = require('./reader.js')", DECLARED),
        ("RowReader", "    rows = new RowReader(path);", MENTIONED),
        ("late_orders", "DROP VIEW late_orders;", MENTIONED),
        ("read_rows", "function read_rows returns at once if there is no file of that name.", MENTIONED),
        ("read_rows", "It is called by the\nfunction read_rows, as said above.", MENTIONED),
        ("readRows", "a = b;" * 100 + "readRows(a);" * 9, MENTIONED),
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


CODE = """# Reader
class Reader:
    \"""Reads.\"""

    def read(self):
        pass

class Writer:
    def write(self):
        self.rows = Reader.read()

[server.limits]
most = 5
# A note.
least = 1
"""


@pytest.mark.parametrize(
    ("name", "line", "rank"),
    [
        ("Reader.read", "    def read(self):", HEADED),
        ("rows.Reader::read()", "    def read(self):", HEADED),
        ("Reader.read", "        self.rows = Reader.read()", MENTIONED),
        ("Reader.write", "    def write(self):", 0),
        ("Writer.write", "    def write(self):", HEADED),
        ("server.limits.most", "most = 5", DECLARED),
        ("limits.least", "least = 1", DECLARED),
        ("server.least", "    def read(self):", 0),
        # What a document of that name declares.
        ("rows.read", "    def read(self):", HEADED),
        ("table.read", "    def read(self):", 0),
    ],
)
def test_a_method_is_defined_below_its_class_and_in_the_document_of_its_module(name, line, rank):
    start = CODE.index(line)
    assert Definitions(name).rank(CODE, start, start + len(line), "src/rows.py") == rank


@pytest.mark.parametrize(
    ("qualified", "line"),
    [("Command.Name", "func (c *Command) Name() string {"), ("Row.size", "int Row::size() const {")],
)
def test_a_method_is_defined_where_its_own_line_names_the_class(qualified, line):
    assert 1 <= Definitions(qualified).rank(line, 0, len(line)) <= DECLARED


def test_capitals_count_where_a_text_has_a_name_as_it_is_typed():
    texts = ["func (c *C) HelpFunc() {", "helpFunc func()"]
    assert [Definitions("HelpFunc", texts).rank(text, 0, len(text)) for text in texts] == [HEADED, 0]
    assert all(Definitions(name, texts).rank(text, 0, len(text)) for name in ("helpfunc", "HELPFUNC") for text in texts)
