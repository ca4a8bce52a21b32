"""Questions on documents that the reader of a project was not trained on, for `reading.yaml`.

python benchmarks/unread.py benchmarks/squad.yaml .mog/squad-unread.jsonl

The project must be built up to `questions`, and its question sets be files of JSON Lines (.jsonl.gz) with ids.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import click
from reader import measured_questions

from mog_assets import config
from mog_assets.build.tools import Tools
from mog_assets.resources.files import atomic


@click.command()
@click.argument("project", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("to", type=click.Path(dir_okay=False, path_type=Path))
def main(project: Path, to: Path) -> None:
    """Write them as they are in the project's file, with the split `test`."""
    tools, lines = Tools(config.load(project)), list[str]()
    for name, question_set in tools.settings.question_sets.items():
        unread = {question.id for question in measured_questions(tools, name)}
        with gzip.open(question_set.path, "rt", encoding="utf-8") as stream:
            records = [json.loads(line) for line in stream]
        lines += [json.dumps(record | {"split": "test"}) for record in records if record["id"] in unread]
    with atomic(to) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    click.echo(f"{to}: {len(lines):,} questions")


if __name__ == "__main__":
    main()
