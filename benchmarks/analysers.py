"""BM25 by the package's analysis of words, beside BM25 by Lucene's analysers, language by language.

python benchmarks/analysers.py --homes .mog/languages/all-MiniLM-L6-v2 --jar anserini-0.22.1-fatjar.jar

It needs Java 17 and a jar with Lucene 9, such as the one in the package pyserini of PyPI (0.22.1). Homes are those of
`languages.py build`, and `squad` of `development.py build`. The same pieces with the titles of their documents are
searched, with the same k1 and b; a piece is right if it has evidence. p is by document.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
from development import measured_questions, opened

from mog_assets.build import markdown
from mog_assets.evaluate.significance import by_document, permutation_p
from mog_assets.questions.sets import Question
from mog_assets.search.methods import parse
from mog_assets.search.passages import pieces_in
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.weak_labels import measured
from mog_assets.text.chunks import chunk_text

# By name of the collection: classes of org.apache.lucene.analysis.
ANALYSERS = {
    "squad": ("en.EnglishAnalyzer",),
    "xquad_de": ("de.GermanAnalyzer",),
    "russian": ("ru.RussianAnalyzer",),
    "xquad_zh": ("cjk.CJKAnalyzer",),
    "jsquad_ja": ("ja.JapaneseAnalyzer", "cjk.CJKAnalyzer"),
    "thai": ("th.ThaiAnalyzer",),
}
BEST = 10


def right(retrieval: Retrieval, questions: Sequence[Question]) -> list[set[int]]:
    """Pieces with evidence of each question."""
    layout, pieces = retrieval.corpora.layout, []
    for spans in measured(questions, retrieval.corpora):
        document, start, end = np.array(spans, np.int64).reshape(-1, 3).T
        # The piece that a span begins in begins before it, mostly.
        firsts, lasts = pieces_in(layout, document, start + 1, end)[0] - 1, pieces_in(layout, document, start, end)[1]
        pieces.append({piece for a, b in zip(firsts.tolist(), lasts.tolist(), strict=True) for piece in range(a, b)})
    return pieces


def ours(retrieval: Retrieval, questions: Sequence[Question]) -> list[list[int]]:
    """The best pieces by the package's BM25, best first."""
    searched = retrieval.with_queries([question.question for question in questions])
    ranked = searched.rank(parse("bm25:fixed-1", retrieval.corpora.settings), BEST)
    firsts, _ = pieces_in(retrieval.corpora.layout, ranked.document, ranked.start, ranked.end)
    rows: list[list[int]] = [[] for _ in questions]
    for question, rank, piece in zip(ranked.question.tolist(), ranked.rank.tolist(), firsts.tolist(), strict=True):
        if rank < BEST:
            rows[question].append(piece)
    return rows


def lucenes(analyser: str, retrieval: Retrieval, questions: Sequence[Question], jar: Path) -> list[list[int]]:
    """The best pieces by Lucene's BM25, best first."""
    layout, options = retrieval.corpora.layout, retrieval.corpora.settings.bm25
    texts = retrieval.corpora.texts(range(len(layout.documents)))
    with tempfile.TemporaryDirectory() as folder:
        passages, asked = Path(folder, "passages"), Path(folder, "questions")
        lines = []
        for document, (start, end) in zip(layout.document_of.tolist(), layout.spans.tolist(), strict=True):
            title, text = texts[document]
            lines.append(" ".join(chunk_text(title, text[start:end]).split()))
        passages.write_text("\n".join(lines), encoding="utf-8")
        asked.write_text("\n".join(" ".join(q.question.split()) for q in questions), encoding="utf-8")
        program = Path(__file__).with_name("Analysers.java")
        command = ["java", "-cp", str(jar), str(program), f"org.apache.lucene.analysis.{analyser}", str(passages)]
        command += [str(asked), str(options.k1), str(options.b), str(BEST)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [[int(piece) for piece in line.split()] for line in done.stdout.splitlines()]


def reciprocal(rows: Sequence[Sequence[int]], gold: Sequence[set[int]]) -> np.ndarray:
    """Reciprocal rank of the first piece with evidence among the best `BEST`, by question."""
    ranks = (next((n for n, piece in enumerate(row, 1) if piece in of), 0) for row, of in zip(rows, gold, strict=True))
    return np.array([1 / rank if rank else 0.0 for rank in ranks])


@click.command()
@click.option("--homes", type=click.Path(path_type=Path), required=True)
@click.option("--jar", type=click.Path(exists=True, path_type=Path), required=True)
def main(homes: Path, jar: Path) -> None:
    rows = []
    for name, analysers in ANALYSERS.items():
        tools, retrieval = opened(name, homes)
        questions = [question for part in measured_questions(tools).values() for question in part]
        gold, documents = right(retrieval, questions), [question.document for question in questions]
        values = reciprocal(ours(retrieval, questions), gold)
        for analyser in analysers:
            others = reciprocal(lucenes(analyser, retrieval, questions, jar), gold)
            p = permutation_p(by_document((values - others)[:, None], documents))[0]
            rows.append(
                {
                    "questions": f"{name}, {len(questions):,} on {len(set(documents))} documents",
                    "Lucene's analyser": analyser.partition(".")[2],
                    "MRR@10": f"{values.mean():.3f}",
                    "Lucene's": f"{others.mean():.3f}",
                    "first": f"{(values == 1).mean():.3f}",
                    "Lucene's first": f"{(others == 1).mean():.3f}",
                    "p of MRR": f"{p:.4f}",
                }
            )
            click.echo(str(rows[-1]), err=True)
    click.echo(markdown.table(rows, 100))


if __name__ == "__main__":
    main()
