"""Source code: classes and functions are headings, the text stays as it is."""

import pytest

from mog_assets.documents.reading import read_corpus
from mog_assets.documents.worker import Limits
from mog_assets.plugins.formats import code
from mog_assets.serve.reading import headings_at

pytest.importorskip("tree_sitter", reason="the extra `code` is not installed")
PYTHON = '''\
"""Déjà vu: offsets are characters, not bytes."""

import os


@decorated
class Heron(Bird):
    """A patient bird."""

    def wait(self, pond):
        def inner():
            return pond

        return inner

    async def strike(self): ...


def é(n):
    return n
'''


def document(folder, name, content):
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (only,) = read_corpus(folder, 1_000_000).documents
    return only


def headings(document):
    """Depth, name and first line of every heading."""
    return [(m.depth, m.text, document.text[m.offset :].split("\n", 1)[0].strip()) for m in document.marks]


def test_classes_and_functions_are_headings_where_their_first_line_starts(tmp_path):
    found = document(tmp_path, "heron.py", PYTHON)
    assert found.text == PYTHON and found.title == "heron.py"
    assert headings(found) == [
        (1, "Heron", "@decorated"),
        (2, "wait", "def wait(self, pond):"),
        (3, "inner", "def inner():"),
        (2, "strike", "async def strike(self): ..."),
        (1, "é", "def é(n):"),
    ]
    assert headings_at(found.marks, found.text.index("return pond")) == ("Heron", "wait", "inner")
    assert headings_at(found.marks, found.text.index("return n")) == ("é",)


@pytest.mark.parametrize(
    ("name", "content", "names"),
    [
        ("a.js", "export class A {\n m() {}\n}\nfunction top() {}\nconst arrow = (x) => x;\n", "A m top arrow"),
        ("a.ts", "export interface I {}\nclass A<T> {\n m(): void {}\n}\nexport function f() {}\n", "I A m f"),
        ("a.tsx", "export function App() {\n return <div/>;\n}\n", "App"),
        ("a.java", "public class A {\n void m() {}\n interface I {}\n}\n", "A m I"),
        ("a.go", "package x\n\ntype A struct{}\n\nfunc (a A) M() {}\nfunc top() {}\n", "A M top"),
        ("a.rs", "struct A;\nimpl A {\n fn m(&self) {}\n}\nfn top() {}\ntrait T {}\n", "A m top T"),
        ("a.c", "struct s { int a; };\nint f(int a) { return a; }\n", "s f"),
        ("a.cpp", "class A {\n int k() { return 1; }\n};\ntemplate<class T> T f(T t) { return t; }\n", "A k f"),
        ("a.rb", "module M\n class A\n  def m; end\n end\nend\n", "M A m"),
        ("a.php", "<?php\nclass A {\n function m() {}\n}\nfunction top() {}\n", "A m top"),
    ],
)
def test_every_language_has_its_definitions(tmp_path, name, content, names):
    assert [text for _, text, _ in headings(document(tmp_path, name, content))] == names.split()


def test_every_language_of_the_table_is_installed_for_the_tests():
    assert code.suffixes() == list(code._GRAMMARS)


@pytest.mark.full
@pytest.mark.parametrize(
    "content",
    [b"(" * 300_000, b"class A:\n" * 50_000, b"def f(" + b"[{(" * 50_000, b"x = '''\n" + b"\xff\xfe\x00" * 100],
)
def test_hostile_code_is_read_or_skipped_with_a_reason(tmp_path, content):
    (tmp_path / "a.py").write_bytes(content)
    (tmp_path / "fine.txt").write_text("Fine.")
    reading = read_corpus(tmp_path, 1_000_000, limits=Limits(seconds=4))
    assert len(reading.used) + len(reading.skipped) == 2 and "fine.txt" in [used.id for used in reading.used]
