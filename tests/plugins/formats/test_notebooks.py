"""Notebooks of Jupyter."""

import json
import re

import pytest
from read_files import LIMIT, document, headings, reasons


def notebook(*cells, **more):
    written = [
        {"cell_type": kind, "source": source, "metadata": {}, "outputs": outputs} for kind, source, outputs in cells
    ]
    return json.dumps({"cells": written, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more})


def test_a_notebook_has_its_texts_and_code_and_not_what_was_printed(tmp_path):
    printed = [{"output_type": "stream", "name": "stdout", "text": ["thousands of lines"]}]
    book = document(
        tmp_path / "a",
        "weights.ipynb",
        notebook(
            ("markdown", ["# Weights\n", "\n", "Of hens."], []),
            ("code", "import hens\nhens.weigh()", printed),
            ("markdown", "## Ducks\nAlso.", []),
        ),
    )
    assert book.text == "# Weights\n\nOf hens.\n\nimport hens\nhens.weigh()\n\n## Ducks\nAlso."
    assert book.title == "Weights" and headings(book) == [(1, "Weights"), (2, "Ducks")]
    assert [book.text[mark.offset] for mark in book.marks] == ["#", "#"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "damaged: expected a readable .ipynb file"),
        ("[1]", "expected a notebook with `cells`"),
        ('{"worksheets": []}', "expected a notebook with `cells`"),
        ("[" * 100_000, "nested without end"),
        (notebook(), "no text|empty"),
        (notebook(("code", {"no": "source"}, [])), "no text|empty"),
        (notebook(("markdown", "x" * LIMIT * 2, [])), "at most"),
    ],
)
def test_notebooks_that_cannot_be_read_are_skipped_with_the_reason(tmp_path, content, reason):
    assert re.search(reason, reasons(tmp_path / "a", "a.ipynb", content))
