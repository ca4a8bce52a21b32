"""50 questions about the manuals of SQLite and git: where the right passage stands, and which answers are shown.

python benchmarks/manuals.py .mog/manuals

It needs Debian's packages sqlite3-doc, git-doc and ripgrep. The pages are copied into the folder, a project is made of
them there, and what retrieval needs is built (minutes to an hour). A passage is right if it has a part of the quote
that answers the question, wherever the quote stands. bm25s and ripgrep search pieces of 500 characters; ripgrep's are
in the order of how many different words of the question they have. The questions tune nothing.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import bm25s
import click

import mog_assets
from mog_assets.answer.reader.calibration import RIGHT
from mog_assets.build import markdown
from mog_assets.plugins.frameworks import conversation
from mog_assets.questions.marks import f1
from mog_assets.resources.errors import MogError
from mog_assets.serve.project import Project
from mog_assets.text.cuts import units
from mog_assets.text.terms import terms_of

PACKAGES = {"sqlite3": "sqlite3-doc", "git-doc": "git-doc"}
DOC = Path("/usr/share/doc")
QUESTIONS = Path(__file__).with_suffix(".jsonl")
FOLLOW_UPS = QUESTIONS.with_name("manuals-followups.jsonl")
BUDGET, PIECE = 4000, 500
LEVELS = range(1, 6)
NEEDED = ["documents", "tokens", "statistics", "mentions", "names"]
NEEDED += ["corpus_registry", "method", "neighbours", "bm25/level_1"]
NEEDED += [f"{kind}/level_{level}" for kind in ("chunks", "embeddings") for level in LEVELS]
Place = tuple[str, str, int, int]
"""Corpus, document, first character, one after the last."""


def prepare(folder: Path, questions: Sequence[dict[str, Any]], pages: int | None) -> Path:
    """Copy the pages and write the project's settings; returns their path."""
    for name, package in PACKAGES.items():
        if not any((DOC / name).glob("*.html")):
            raise MogError(f"{DOC / name}: expected pages of HTML, got none: install the package {package}")
    if shutil.which("rg") is None:
        raise MogError("rg: expected a command of this name, got none: install the package ripgrep")
    asked = sorted({question["file"] for question in questions if "file" in question})
    found = (page for name in PACKAGES for page in (DOC / name).glob("*.html") if not page.is_symlink())
    others = sorted({str(page.relative_to(DOC)) for page in found} - set(asked))
    random.Random(0).shuffle(others)
    for name in (*asked, *others[:pages]):
        (folder / "pages" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(DOC / name, folder / "pages" / name)
    corpora = {name: {"path": f"pages/{name}"} for name in PACKAGES}
    values = {"corpora": corpora, "methods": ["fused"], "encoder": {"dtype": "float32"}}
    (folder / "mog.yaml").write_text(json.dumps(values), encoding="utf-8")
    return folder / "mog.yaml"


def documents(project: Project, folder: Path) -> dict[tuple[str, str], str]:
    """Texts as they are searched, by corpus and id."""
    pages = [(path.parent.name, path.name) for path in sorted((folder / "pages").glob("*/*.html"))]
    return {page: project.document(*page).text for page in pages}


def places(quote: str, texts: dict[tuple[str, str], str]) -> list[Place]:
    """Where a quote stands, whatever the white space and the quotation marks."""
    words = ['["“”]' if word == '"' else re.escape(word) for word in re.findall(r"\w+|[^\w\s]", quote)]
    pattern = re.compile(r"\s*".join(words), re.IGNORECASE)
    return [(*page, *match.span()) for page, text in texts.items() for match in pattern.finditer(text)]


def rank(found: Sequence[Sequence[Place]], right: Sequence[Place]) -> int | None:
    """Rank of the first passage with a part of a right place, from 1."""
    for number, spans in enumerate(found, 1):
        if any(a[:2] == b[:2] and a[2] < b[3] and b[2] < a[3] for a in spans for b in right):
            return number
    return None


def searched(project: Project, method: str) -> Callable[[str], list[list[Place]]]:
    def search(question: str) -> list[list[Place]]:
        found = project.search(question, method=method, budget=BUDGET).passages
        return [[(span.corpus, span.document, span.start, span.end) for span in passage.spans] for passage in found]

    return search


def pieces_of(texts: dict[tuple[str, str], str]) -> list[Place]:
    """Whole sentences of at most `PIECE` characters together."""
    made = list[Place]()
    for page, text in texts.items():
        start = last = 0
        for end in (*units(text, PIECE).tolist(), len(text) + PIECE + 1):
            if end - start > PIECE and last > start:
                made.append((*page, start, last))
                start = last
            last = end
    return made


def by_bm25s(pieces: Sequence[Place], texts: dict[tuple[str, str], str]) -> Callable[[str], list[list[Place]]]:
    index = bm25s.BM25()
    index.index(terms_of([texts[c, d][a:b] for c, d, a, b in pieces]), show_progress=False)

    def search(question: str) -> list[list[Place]]:
        if not (terms := terms_of([question])[0]):
            return []
        found, _ = index.retrieve([terms], k=BUDGET // PIECE, show_progress=False)
        return [[pieces[number]] for number in found[0].tolist()]

    return search


def by_ripgrep(
    pieces: Sequence[Place], texts: dict[tuple[str, str], str], folder: Path
) -> Callable[[str], list[list[Place]]]:
    """One line of a file is one piece."""
    file = folder / "pieces.txt"
    file.write_text("\n".join(" ".join(texts[c, d][a:b].split()) for c, d, a, b in pieces), encoding="utf-8")

    def search(question: str) -> list[list[Place]]:
        from bm25s.stopwords import STOPWORDS_EN

        words = {word.lower() for word in re.findall(r"[\w.=-]*\w", question)} - set(STOPWORDS_EN)
        lines: dict[int, set[str]] = {}
        for word in sorted(words):
            command = [
                "rg",
                "--ignore-case",
                "--fixed-strings",
                "--line-number",
                "--only-matching",
                "--",
                word,
                str(file),
            ]
            for line in subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines():
                lines.setdefault(int(line.split(":")[0]) - 1, set()).add(word)
        best = sorted(lines, key=lambda line: -len(lines[line]))[: BUDGET // PIECE]
        return [[pieces[line]] for line in best]

    return search


def follow_ups(search: Callable[[str], list[list[Place]]], right: dict[str, list[Place]]) -> None:
    """Print how often a follow-up finds the right passage, as it is asked and made to stand alone."""
    pairs = [json.loads(line) for line in FOLLOW_UPS.read_text(encoding="utf-8").splitlines()]
    ways: dict[str, Callable[[str, str], str]] = {
        "as asked": lambda first, follow_up: follow_up,
        "after the question before": lambda first, follow_up: f"{first} {follow_up}",
        "made to stand alone": lambda first, follow_up: conversation.standalone(follow_up, [first]),
    }
    for name, way in ways.items():
        ranks = [rank(search(way(pair["first"], pair["follow_up"])), right[pair["gold"]]) for pair in pairs]
        counts = [sum(r is not None and r <= most for r in ranks) for most in (1, 5, len(pairs) * BUDGET)]
        print(
            f"{len(pairs)} follow-ups, {name}: first {counts[0]}, among five {counts[1]}, within {BUDGET} {counts[2]}"
        )


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--pages", type=int, help="Further pages beside those of the questions, drawn at random. [default: all]")
@click.option("--show", is_flag=True, help="Print every question with its ranks and its answer.")
def main(folder: Path, pages: int | None, show: bool) -> None:
    questions = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    config = prepare(folder, questions, pages)
    select = [argument for key in NEEDED for argument in ("--select", key)]
    subprocess.run([sys.executable, "-m", "mog_assets.cli", "run", "--config", str(config), *select], check=True)
    with mog_assets.open(config, refresh=None) as project, tempfile.TemporaryDirectory() as scratch:
        texts = documents(project, folder)
        pieces = pieces_of(texts)
        ways = {
            "fused": searched(project, "fused"),
            "fixed-1": searched(project, "fixed-1"),
            "bm25s, 500 characters": by_bm25s(pieces, texts),
            "ripgrep": by_ripgrep(pieces, texts, Path(scratch)),
        }
        answerable = [question for question in questions if "file" in question]
        right = {question["question"]: places(question["quote"], texts) for question in answerable}
        if lost := [question for question, found in right.items() if not found]:
            raise MogError(f"manuals.jsonl: expected quotes that stand in the pages, got none of {lost}")
        ranks = {
            name: {question: rank(search(question), found) for question, found in right.items()}
            for name, search in ways.items()
        }
        follow_ups(searched(project, "fused"), right)
        answers = {q["question"]: project.ask(q["question"], method="fused -> one-step") for q in questions}
    kinds = {q["question"]: q["kind"] for q in answerable}
    rows = []
    for kind in ("all", *dict.fromkeys(kinds.values())):
        for name, own in ranks.items():
            these = [place for question, place in own.items() if kind in ("all", kinds[question])]
            first, five = (sum(place is not None and place <= most for place in these) for most in (1, 5))
            row = {"questions": f"{kind}, {len(these)}", "by": name, "first": first, "among five": five}
            rows.append(row | {f"within {BUDGET:,} characters": sum(place is not None for place in these)})
    size = sum(map(len, texts.values()))
    click.echo(f"{len(texts)} pages, {size:,} characters; rank of the right passage\n\n{markdown.table(rows, 100)}\n")
    rows = []
    for name, own in (("answerable", answerable), ("not answerable", [q for q in questions if "file" not in q])):
        shown = [q for q in own if answers[q["question"]].answer is not None]
        correct = [q for q in shown if is_right(answers[q["question"]].answer, q)]
        best = [q for q in own if is_right(answers[q["question"]].details["raw"], q)]
        row = {"questions": f"{name}, {len(own)}", "shown": len(shown), "shown and right": len(correct)}
        rows.append(row | {"withheld": len(own) - len(shown), "best span right, shown or not": len(best)})
    click.echo(markdown.table(rows, 100))
    if show:
        for q in questions:
            told = answers[q["question"]]
            places_of = ", ".join(f"{name} {own.get(q['question'])}" for name, own in ranks.items())
            chance = "" if told.probability is None else f"{told.probability:.2f} "
            click.echo(f"\n{q['question']}\n  {places_of}\n  {chance}{told.details['raw']!r}")


def is_right(said: str, question: dict[str, Any]) -> bool:
    """Whether an answer shares enough words with one of the expected ones, or with the quote."""
    return bool(said) and "file" in question and f1(said, [*question["answers"], question["quote"]]) >= RIGHT


if __name__ == "__main__":
    main()
