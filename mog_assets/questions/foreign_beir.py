"""Read BEIR folders.

References: Thakur et al. 2021, BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval
Models.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from mog_assets.questions.foreign import (
    LONGEST,
    Found,
    Ids,
    Importer,
    Judged,
    Notes,
    add_judgement,
    judged_questions,
    texts_of_lines,
)
from mog_assets.questions.streams import Advance, lines_of
from mog_assets.registry import IMPORTERS
from mog_assets.resources.errors import MogError


class Beir:
    """A BEIR folder: `corpus.jsonl[.gz]`, `queries.jsonl[.gz]`, `qrels/*.tsv[.gz]`.

    Raises:
        MogError: it is none.
    """

    def __init__(self, folder: Path, notes: Notes) -> None:
        if not folder.is_dir():
            unpack = "; unpack the archive first" if folder.suffix == ".zip" else ""
            raise MogError(
                f"{folder}: expected a BEIR folder, found {'a file' if folder.exists() else 'nothing'}{unpack}"
            )
        self._corpus, self._queries = (_jsonl(folder, stem) for stem in ("corpus", "queries"))
        qrels = sorted(p for p in (folder / "qrels").glob("*") if _split_of(p))
        # A query that is judged in several splits belongs to the one that measures.
        order = ("test", "dev", "train")
        qrels.sort(key=lambda p: (order.index(s) if (s := _split_of(p)) in order else len(order), p.name))
        if not qrels:
            raise MogError(f"{folder}: expected judgements, qrels/test.tsv or others, found none")
        self._judged: dict[str, Judged] = {}
        for path in qrels:
            _read_qrels(path, self._judged, notes)
        self.size = self._corpus.stat().st_size

    def documents(self, advance: Advance) -> Iterator[Found]:
        """See `Dataset`."""
        return texts_of_lines(self._corpus, {"id": ("_id",), "title": ("title",), "text": ("text",)}, advance)

    def questions(self, ids: Ids, corpus: str, notes: Notes) -> Iterator[dict[str, Any]]:
        """See `Dataset`."""
        queries = texts_of_lines(self._queries, {"id": ("_id",), "text": ("text",)})
        return judged_questions(queries, self._judged, ids, notes)


def _jsonl(folder: Path, stem: str) -> Path:
    files = [path for suffix in (".jsonl", ".jsonl.gz") if (path := folder / f"{stem}{suffix}").is_file()]
    if not files:
        inside = sorted(p.parent.name for p in folder.glob(f"*/{stem}.jsonl*"))
        hint = f"; import one of the folders in it: {', '.join(inside[:12])}" if inside else ""
        raise MogError(f"{folder}: expected a BEIR folder with {stem}.jsonl or {stem}.jsonl.gz, found neither{hint}")
    return files[0]


def _split_of(path: Path) -> str:
    match = re.fullmatch(r"([A-Za-z0-9][\w.-]{0,63}?)\.tsv(\.gz)?", path.name)
    return match[1] if match else ""


def _read_qrels(path: Path, judged: dict[str, Judged], notes: Notes) -> None:
    split = _split_of(path)
    for number, line, wrong in lines_of(path, "table of judgements", LONGEST):
        place = f"{path.name}:{number}"
        try:
            fields = [part.strip() for part in line.decode("utf-8-sig").split("\t")]
        except UnicodeDecodeError:
            wrong = "expected UTF-8"
        if wrong or len(fields) != 3:
            notes.add("judgements skipped", f"{place}: {wrong or f'expected 3 columns, got {len(fields)}'}")
        elif number > 1 or fields[2] != "score":
            add_judgement(judged, split, (fields[0], fields[1], fields[2]), place, notes)


IMPORTERS.register(
    "beir",
    Importer(
        "Import a BEIR folder: corpus.jsonl, queries.jsonl (or .gz) and qrels/*.tsv.",
        [click.Argument(["folder"], type=click.Path(path_type=Path))],
        named=lambda folder: folder,
        open=lambda notes, folder: Beir(folder, notes),
    ),
)
