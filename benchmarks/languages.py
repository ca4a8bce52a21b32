"""Evidence recall by language, with the embedded encoder and with the multilingual one.

python benchmarks/languages.py build --data ../shared/data --homes .mog/languages
python benchmarks/languages.py table --homes .mog/languages        best fixed level and `fused`, by language
python benchmarks/languages.py mixed --homes .mog/languages        documents in German and Chinese together

Questions in Russian and Thai were written for this file (languages.jsonl: 12 documents and 24 questions each). `mixed`
asks the German and the Chinese questions of XQuAD, whose articles are the same, of both corpora together: whether the
first passage is of the question's language, and of the article; and of the corpus in the other language alone: whether
the first passage is of the article.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import yaml
from development import COLLECTIONS, RANKINGS, opened, questions_of
from ranking import recall

from mog_assets import config
from mog_assets.build import markdown, runner
from mog_assets.build.plan import graph, needed
from mog_assets.evaluate.significance import bootstrap_interval, by_document, permutation_p
from mog_assets.resources.arrays import places
from mog_assets.search.candidates import ordered
from mog_assets.search.methods import parse
from mog_assets.search.training import fixed_recalls

WRITTEN = Path(__file__).with_suffix(".jsonl")
SAMPLES = {"russian": "ru", "thai": "th"}
XQUAD = ("xquad_de", "xquad_zh")
NAMES = [*XQUAD, "jsquad_ja", *SAMPLES]
ENCODERS = ("all-MiniLM-L6-v2", "multilingual")


def sample(name: str, folder: Path) -> dict[str, Any]:
    """Write the documents and questions of a language; returns what the settings say of them."""
    rows = [json.loads(line) for line in WRITTEN.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["language"] == SAMPLES[name]]
    documents = [{key: row[key] for key in ("id", "title", "text")} for row in rows]
    questions = [
        {
            "id": f"{row['id']}-{i}",
            "question": text,
            "evidence": [{"corpus": name, "doc": row["id"], "quote": quote}],
        }
        for row in rows
        for i, (text, quote) in enumerate(row["questions"])
    ]
    folder.mkdir(parents=True, exist_ok=True)
    for file, lines in (("documents.jsonl", documents), ("questions.jsonl", questions)):
        text = "".join(json.dumps(line | {"split": "test"} if "question" in line else line) + "\n" for line in lines)
        (folder / file).write_text(text, encoding="utf-8")
    return {
        "corpora": {name: {"path": "documents.jsonl"}},
        "question_sets": {name: {"path": "questions.jsonl", "corpora": [name], "train": [], "test": ["test"]}},
    }


def written(name: str, data: Path, folder: Path, encoder: str) -> Path:
    """The settings of a language, or of two together, as a file."""
    if name in SAMPLES:
        values = sample(name, folder)
    else:
        corpora = XQUAD if name == "mixed" else [name]
        split = COLLECTIONS[corpora[0]][2]
        values = {
            "corpora": {c: {"path": str((data / c / "corpora" / f"{c}.jsonl.gz").resolve())} for c in corpora},
            "question_sets": {
                c: {
                    "path": str((data / c / "questions.jsonl.gz").resolve()),
                    "corpora": list(corpora),
                    "train": [],
                    "test": [split],
                }
                for c in corpora
            },
        }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "mog.yaml"
    text = yaml.safe_dump({"home": "home", "encoder": encoder, **values}, sort_keys=False, allow_unicode=True)
    path.write_text(text, encoding="utf-8")
    return path


def build(data: Path, homes: Path) -> None:
    """Build what retrieval needs."""
    for encoder in ENCODERS:
        for name in [*NAMES, "mixed"]:
            settings = config.load(written(name, data, homes / encoder / name, encoder))
            indexes = ["neighbours", *(f"embeddings/level_{level}" for level in settings.level_range)]
            keys = needed(graph(settings), ["questions", "statistics", "mentions", "names", "method", *indexes])
            failures = runner.run(settings, select=sorted(keys)).failures
            click.echo(f"{encoder}, {name}: {'; '.join(failures) or 'built'}", err=True)


def table(homes: Path) -> Iterator[dict[str, str]]:
    """ER of the best fixed level and of `fused`, by language and encoder."""
    for name in NAMES:
        row, by_encoder = {"questions": ""}, []
        for encoder in ENCODERS:
            of = questions_of(name, homes / encoder)
            fixed = fixed_recalls(of)
            best = max(fixed, key=lambda level: fixed[level].mean())
            scores = RANKINGS["fused"](of)
            fused = recall(of, scores)
            row["questions"] = f"{name}, {len(of.words):,} questions, {len(set(of.documents))} documents"
            row[f"{encoder}: dense-1"] = f"{fixed['dense:fixed-1'].mean():.3f}"
            row[f"{encoder}: best fixed"] = f"{best.replace(':fixed', '')} {fixed[best].mean():.3f}"
            row[f"{encoder}: fused"] = f"{fused.mean():.3f}"
            row[f"{encoder}: first piece has it"] = f"{first_right(of, scores):.3f}"
            row[f"{encoder}: fused - best"] = _difference(fused - fixed[best], of.documents)
            by_encoder.append(fused)
        row["fused, multilingual - embedded"] = _difference(by_encoder[1] - by_encoder[0], of.documents)
        yield row


def first_right(of: Any, scores: np.ndarray) -> float:
    """Share of questions whose first piece has evidence."""
    order = ordered(of.candidates, scores)
    first = order[places(of.candidates.question[order]) == 0]
    return float(np.isin(first, of.gold.row).sum() / len(of.words))


def _difference(values: np.ndarray, documents: Any) -> str:
    totals = by_document(values, documents)
    (low,), (high,) = bootstrap_interval(totals)
    return f"{values.mean():+.3f} [{low:+.3f}, {high:+.3f}], p {permutation_p(totals)[0]:.3f}"


def mixed(homes: Path) -> Iterator[dict[str, str]]:
    """Which documents come first where two languages have the same articles."""
    for encoder in ENCODERS:
        tools, retrieval = opened("mixed", homes / encoder)
        for corpus in XQUAD:
            stored = tools.store.read("questions").path(f"{corpus}.parquet")
            questions = [q for q in _questions(stored) if q.evidence]
            retrieved = retrieval.with_queries([q.question for q in questions])
            other = np.asarray([retrieval.corpora.names[owner] != corpus for owner in retrieval.corpora.owners])
            row = {"encoder": encoder, "questions of": corpus}
            for name, searching in (("both", retrieved), ("the other language", retrieved.restricted_to(other))):
                ranked = searching.passages(parse("fused", tools.settings), k=1)
                first = ranked.document[np.searchsorted(ranked.question, np.arange(len(questions)))]
                same = np.array([retrieval.corpora.names[retrieval.corpora.owners[d]] == corpus for d in first])
                articles = [retrieval.corpora.layout.documents[document] for document in first]
                article = np.array([q.evidence[0].doc == one for q, one in zip(questions, articles, strict=True)])
                if name == "both":
                    row["first passage of its language"] = f"{same.mean():.3f}"
                row[f"of the article, {name}"] = f"{article.mean():.3f}"
            yield row


def _questions(path: Path) -> Any:
    from mog_assets.questions.sets import load_questions

    return load_questions(path, [COLLECTIONS[XQUAD[0]][2]])


@click.command()
@click.argument("what", type=click.Choice(["build", "table", "mixed"]))
@click.option("--data", type=click.Path(exists=True, path_type=Path), default=Path("../shared/data"))
@click.option("--homes", type=click.Path(path_type=Path), default=Path(".mog/languages"))
def main(what: str, data: Path, homes: Path) -> None:
    """Build homes, or print a table."""
    if what == "build":
        build(data, homes)
    else:
        click.echo(markdown.table(list(table(homes) if what == "table" else mixed(homes)), 400))


if __name__ == "__main__":
    main()
