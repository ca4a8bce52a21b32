"""Options, functions and error codes in the manuals of git and SQLite: whether the passage that defines one is first.

python benchmarks/identifiers.py build .mog/identifiers
python benchmarks/identifiers.py ask .mog/identifiers

It needs Debian's packages git-doc, sqlite3-doc and ripgrep. 50 identifiers are drawn from those that one of the pages
defines: 20 options, 20 functions, 10 error codes; each is a question as it stands. The first passage is right if it is
of that page and has the identifier. `bm25s` and `rg` search pieces of 500 characters; ripgrep's are in the order of how
often the identifier stands in them, then of their files.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import bm25s
import click
import yaml

import mog_assets
from mog_assets import config
from mog_assets.build import markdown, runner
from mog_assets.documents.reading import read_corpus

DOC = Path("/usr/share/doc")
GIT = ("add", "branch", "checkout", "cherry-pick", "clone", "commit", "diff", "fetch", "log", "merge", "pull", "push")
GIT += ("rebase", "remote", "reset", "revert", "show", "stash", "status", "tag")
DRAWN = {"options": 20, "functions": 20, "error codes": 10}
PIECE = 500
Search = Callable[[str], tuple[str, str]]
"""Gives the page and the text of the first passage."""


def pages() -> list[Path]:
    """The pages of the manuals, below `DOC`."""
    git = [Path("git-doc") / f"git-{name}.html" for name in GIT]
    functions = sorted(path.relative_to(DOC) for path in (DOC / "sqlite3" / "c3ref").glob("*.html"))
    return [*git, *functions, Path("sqlite3/rescode.html")]


def defined() -> dict[str, dict[str, str]]:
    """By kind, identifiers that one page defines, with the page."""
    places: dict[str, dict[str, set[str]]] = {kind: defaultdict(set) for kind in DRAWN}
    patterns = {
        "options": r"(?m)^(--[a-z]+(?:-[a-z]+)+)\b.*\n</dt>",
        "functions": r"(?m)^[\w ]+\*?\b(sqlite3_\w+)\(",
        "error codes": r"<h3[^>]*>\(\d+\) (SQLITE_\w+)",
    }
    for page in pages():
        text = (DOC / page).read_text(encoding="utf-8", errors="replace")
        for kind, pattern in patterns.items():
            if (kind == "options") == (page.parts[0] == "git-doc"):
                for name in re.findall(pattern, text):
                    places[kind][name].add(page.as_posix())
    return {kind: {n: min(p) for n, p in sorted(of.items()) if len(p) == 1} for kind, of in places.items()}


def drawn() -> dict[str, dict[str, str]]:
    """The identifiers that are asked for, with their pages, by kind."""
    choose = random.Random(0)
    return {kind: dict(choose.sample(sorted(of.items()), DRAWN[kind])) for kind, of in defined().items()}


def build(folder: Path) -> None:
    """Copy the pages, and build what `fused` needs."""
    for page in pages():
        (folder / "pages" / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(DOC / page, folder / "pages" / page)
    values = {"home": "home", "corpora": {"manuals": {"path": "pages"}}, "methods": ["fused"]}
    (folder / "mog.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    report = runner.run(config.load(folder / "mog.yaml"))
    if report.failures:
        raise click.ClickException(str(report.failures))


def searches(folder: Path) -> Iterable[tuple[str, Search]]:
    """Ways of searching, by name."""
    texts = {d.id: d.text for d in read_corpus(folder / "pages", 20_000_000).documents}
    pieces = [(page, text[i : i + PIECE]) for page, text in texts.items() for i in range(0, len(text), PIECE)]
    index = bm25s.BM25()
    index.index(bm25s.tokenize([text for _, text in pieces], show_progress=False), show_progress=False)

    def by_words(identifier: str) -> tuple[str, str]:
        numbers, scores = index.retrieve(bm25s.tokenize([identifier], show_progress=False), k=1, show_progress=False)
        return pieces[int(numbers[0, 0])] if scores[0, 0] > 0 else ("", "")

    with tempfile.TemporaryDirectory() as scratch, mog_assets.open(folder / "mog.yaml", refresh=None) as project:
        for number, (_, text) in enumerate(pieces):
            (Path(scratch) / f"{number:06}").write_text(text, encoding="utf-8")

        def by_lines(identifier: str) -> tuple[str, str]:
            command = [
                "rg",
                "--count-matches",
                "--no-filename",
                "--with-filename",
                "-F",
                "-w",
                "--",
                identifier,
                scratch,
            ]
            lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
            counts = Counter({path: int(n) for path, _, n in (line.rpartition(":") for line in sorted(lines))})
            return pieces[int(Path(counts.most_common(1)[0][0]).name)] if counts else ("", "")

        def by(method: str) -> Search:
            def first(identifier: str) -> tuple[str, str]:
                passages = project.search(identifier, method=method, k=1).passages
                return (passages[0].document, passages[0].text) if passages else ("", "")

            return first

        yield "fused", by("fused")
        yield "bm25s", by_words
        yield "rg", by_lines


def ask(folder: Path) -> list[dict[str, str]]:
    """The share of identifiers whose first passage defines them, or has them, by kind."""
    rows = []
    for name, search in searches(folder):
        row, totals = {"search": name}, [0, 0]
        for kind, identifiers in drawn().items():
            first = [(search(identifier), identifier, page) for identifier, page in identifiers.items()]
            whole = [re.search(rf"(?<![\w-]){re.escape(i)}(?![\w-])", text) is not None for (_, text), i, _ in first]
            right = [has and doc == page for has, ((doc, _), _, page) in zip(whole, first, strict=True)]
            row[kind] = f"{sum(right)} of {len(right)} ({sum(whole)} have it)"
            totals = [totals[0] + sum(right), totals[1] + sum(whole)]
        rows.append(row | {"all": f"{totals[0]} of {sum(DRAWN.values())} ({totals[1]} have it)"})
    return rows


@click.command()
@click.argument("what", type=click.Choice(["build", "ask"]))
@click.argument("folder", type=click.Path(path_type=Path))
def main(what: str, folder: Path) -> None:
    """Build the project, or ask it."""
    if what == "build":
        build(folder)
    else:
        click.echo(markdown.table(ask(folder), 400))


if __name__ == "__main__":
    main()
