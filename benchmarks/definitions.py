"""Names of code: whether the passage that is first for a name is the one that defines it.

python benchmarks/definitions.py .mog/development anthropic_code
python benchmarks/definitions.py .mog other

A collection is a folder with a mog.yaml that `mog run` has built; texts whose ids end as files of code do are read with
tree-sitter (`pip install 'mog-assets[code]'`), which says what defines a name. Asked for are names that one place
defines and three places have, as they stand and with parentheses, and methods as `Class.method`. Names that are a word
of English as well, such as `open`, are told from it by their parentheses alone, so they stand in columns of their own.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from pathlib import Path

import click
from development import opened

from mog_assets.build import markdown
from mog_assets.evaluate.known_items import KnownItem, placed
from mog_assets.index.analysis import NAME_IN_CODE
from mog_assets.plugins.formats.code import defined_names, suffixes
from mog_assets.search.methods import parse
from mog_assets.search.retrieval import Retrieval

# Names of each language and column.
MOST = 60


def drawn(retrieval: Retrieval) -> dict[tuple[str, str], list[KnownItem]]:
    """The items that are asked for, by language and column."""
    layout, places, words = retrieval.corpora.layout, defaultdict(list), Counter[str]()
    for document, (_, text) in retrieval.corpora.texts(range(len(layout.documents))).items():
        suffix = Path(layout.documents[document]).suffix
        words.update(re.findall(r"\w+", text))
        if suffix not in suffixes() or not text.isascii():
            continue
        first, last = layout.offsets[document], layout.offsets[document + 1]
        enclosing: list[tuple[int, str]] = []
        for start, end, name in defined_names(text.encode(), suffix):
            enclosing = [outer for outer in enclosing if outer[0] > start]
            found = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)").search(text, start, end)
            at = found.start() if found else start
            piece = next(i for i in range(first, last) if layout.spans[i][1] > at)
            places[name].append((suffix, document, piece, enclosing[-1][1] if enclosing else ""))
            enclosing.append((end, name))
    items = defaultdict(list)
    for name, of in sorted(places.items()):
        for suffix, document, piece, outer in of:
            kinds = {"Class.method": f"{outer}.{name}"} if sum(other[3] == outer for other in of) == 1 and outer else {}
            if len(of) == 1 and words[name] > 2:
                is_word = not NAME_IN_CODE.fullmatch(name)
                kinds |= {"word": name, "word()": name + "()"} if is_word else {"name": name, "name()": name + "()"}
            for kind, typed in kinds.items() if len(name) > 3 else ():
                items[suffix, kind].append(KnownItem(kind, typed, document, piece))
    choose = random.Random(0)
    return {key: choose.sample(of, min(MOST, len(of))) for key, of in sorted(items.items())}


@click.command()
@click.argument("homes", type=click.Path(path_type=Path))
@click.argument("names", nargs=-1, required=True)
def main(homes: Path, names: tuple[str, ...]) -> None:
    """Print how many names of each language have their definition first."""
    rows: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for name in names:
        tools, retrieval = opened(name, homes)
        for (suffix, kind), items in drawn(retrieval).items():
            asked = retrieval.with_queries([item.text for item in items])
            scores = asked.scores(parse("fused", tools.settings))
            first, _ = placed(asked.read.candidates, scores, items, retrieval.corpora.layout)
            rows[name, suffix][kind] = f"{first.sum()} of {len(items)}"
    kinds = ("name", "name()", "word", "word()", "Class.method")
    table = [
        {"collection": name, "files": suffix} | {f"`{kind}`": row.get(kind, "") for kind in kinds}
        for (name, suffix), row in rows.items()
    ]
    click.echo(markdown.table(table, 400))


if __name__ == "__main__":
    main()
