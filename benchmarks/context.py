"""Context of a piece without a language model: what vectors and words of what stands around it add to `fused`.

python benchmarks/context.py encode claude_docs --homes .mog/development      late vectors, and what they cost
python benchmarks/context.py late claude_docs --homes .mog/development        what they do to `fused`
python benchmarks/context.py learn claude_docs locomo --homes …               and to weights learned with them
python benchmarks/context.py headings claude_docs --homes .mog/development    headings in BM25

A prototype: candidates stay as they are, only their scores change. The late vector of a piece (late chunking, Günther
et al. 2024, arXiv 2409.04701) is the mean over its tokens of one pass of the embedded encoder over a window of `WINDOW`
tokens, which has the title in front and at least `BEFORE` tokens before the piece and `AFTER` after it where its
document has them; pieces next to each other share a window. Coarser levels are pooled from level 1. Headings are the
Markdown headings above a piece, in code the lines of classes and functions that it is in: BM25 of level 1 counts their
words with those of the piece. `learn` learns the weights of `fused` on the other collections that are named, from plain
vectors and from means of both.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from development import COLLECTIONS, differences, measured_questions, opened, questions_of
from ranking import recall
from router import left_out

from mog_assets.build import markdown
from mog_assets.build.tools import Tools
from mog_assets.index.encoding import pool
from mog_assets.index.postings import saturation
from mog_assets.resources.bert import Bert
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.router import Router, scaled
from mog_assets.search.training import Examples
from mog_assets.text.chunks import Layout, chunk_text
from mog_assets.text.terms import tokenise

WINDOW, BEFORE, AFTER, TITLE = 512, 128, 64, 64
CLS, SEP = 101, 102
# Plain vectors that are timed beside late ones; weights of a further expert by rule.
TIMED, WEIGHTS = 500, (0.1, 0.2, 0.4)
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(\#{1,6})[ \t]+(\S.*)", re.MULTILINE)
_WORDS = r"(?:(?:pub|export|async|static|public|private|abstract|unsafe)\b\S*[ \t]+)*"
_DEFINITION = re.compile(rf"^([ \t]*)({_WORDS}(?:class|def|fn|func|function|impl|struct|enum|trait)\b.+)", re.MULTILINE)
_CODE = re.compile(r"\.(?:py|rs|go|js|ts|tsx|java|cc|cpp|h|hpp|c|rb|kt|swift|cs)\b")


def windows(pieces: Sequence[Sequence[int]], room: int) -> Iterator[tuple[range, int, list[int]]]:
    """Which pieces are encoded together, the place of the window in the document, and its tokens."""
    tokens = [token for piece in pieces for token in piece]
    ends = np.cumsum([0, *map(len, pieces)]).tolist()
    first = 0
    while first < len(pieces):
        last = first + 1
        while last < len(pieces) and ends[last + 1] - ends[first] <= room - BEFORE - AFTER:
            last += 1
        begin = max(ends[first] - min(BEFORE, max(room - (ends[last] - ends[first]), 0)), 0)
        yield range(first, last), begin, tokens[begin : min(ends[last] + AFTER, begin + room)]
        first = last


def late(model: Bert, title: Sequence[int], pieces: Sequence[Sequence[int]]) -> np.ndarray:
    """Late vectors of the pieces of a document: float16 of shape (pieces, size)."""
    front, starts = [CLS, *title[:TITLE]], np.cumsum([0, *map(len, pieces)])
    vectors = np.zeros((len(pieces), model.config.hidden_size), np.float32)
    for members, begin, tokens in windows(pieces, WINDOW - len(front) - 1):
        hidden = model.alone([torch.tensor([[*front, *tokens, SEP]])])[0][0].float()
        for piece in members:
            at = starts[piece : piece + 2] - begin + len(front)
            vectors[piece] = hidden[at[0] : min(at[1], len(hidden) - 1)].sum(dim=0).numpy()
    return (vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)).astype(np.float16)


def encoded(name: str, tools: Tools, retrieval: Retrieval, folder: Path) -> dict[str, Any]:
    """Write the late vectors of a collection, and tell what they cost."""
    encoder, layout = tools.encoder.model, retrieval.corpora.layout
    model = Bert(Path(encoder.source), getattr(torch, encoder.dtype), "cpu")
    torch.set_num_threads(1)
    found, seconds, timed = [], 0.0, list[tuple[bytes, str]]()
    for document, (first, last) in enumerate(pairwise(layout.offsets.tolist())):
        ((title, text),) = retrieval.corpora.texts([document]).values()
        own = [text[start:end] for start, end in layout.spans[first:last].tolist()]
        began = time.process_time()
        heading, *pieces = (row[1:-1] for row in encoder.few.tokenizer([title, *own], max_length=1 << 20)["input_ids"])
        with torch.inference_mode():
            found.append(late(model, heading, pieces))
        if len(timed) < TIMED:
            seconds += time.process_time() - began
            timed += [(b"", chunk_text(title, piece)) for piece in own]
    list(encoder.vectors(timed[:1], "passage"))
    began = time.process_time()
    list(encoder.vectors(timed, "passage"))
    plain = time.process_time() - began
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / f"{name}.npy", np.concatenate(found))
    return {"collection": name, "timed": len(timed), "late": f"{seconds:.1f} CPU s", "plain": f"{plain:.1f}"}


def products(of: Examples, layout: Layout, vectors: np.ndarray, levels: int) -> np.ndarray:
    """Scores of the candidates by vectors of level 1 and those pooled from them: float32 of shape (n, levels)."""
    found = np.zeros((len(of.candidates.piece), levels), np.float32)
    for level in range(1, levels + 1):
        of_level = (vectors if level == 1 else pool(vectors, layout, level)).astype(np.float32)
        rows = layout.containing(of.candidates.piece, level)
        for number, (start, end) in enumerate(pairwise(of.candidates.offsets.tolist())):
            found[start:end, level - 1] = of_level[rows[start:end]] @ of.vectors[number]
    return found


def replaced(of: Examples, names: Sequence[str], scores: np.ndarray, share: float = 1.0) -> Examples:
    """The same questions with other scores by some experts, shape (n, names), or with a share of these."""
    changed, columns = of.candidates.scores.copy(), [of.experts.index(name) for name in names]
    changed[:, columns] += share * (scores - changed[:, columns])
    return replace(of, gold=replace(of.gold, candidates=replace(of.candidates, scores=changed)))


def fused(of: Examples) -> np.ndarray:
    """Scores by `fused`."""
    return Router.shipped().scores(of.candidates, of.experts)


def variants(of: Examples, names: Sequence[str], scores: np.ndarray, further: np.ndarray) -> dict[str, np.ndarray]:
    """ER with other scores in place of those of some experts, with means of both, and with a further expert by rule."""
    shares = {"in place": 1.0, "mean": 0.5}
    recalls = {what: recall(of, fused(replaced(of, names, scores, share))) for what, share in shares.items()}
    return recalls | {f"added {weight}": added(of, further, weight) for weight in WEIGHTS}


def added(of: Examples, scores: np.ndarray, weight: float) -> np.ndarray:
    """ER by `fused` and a further expert."""
    return recall(of, fused(of) + weight * scaled(of.candidates, scores.astype(float))[0])


def paths(title: str, text: str, starts: Sequence[int]) -> list[str]:
    """The headings that stand above each of some places in a document; in code definitions, by indentation."""
    above: list[tuple[int, str]] = []
    begun, of = [], [""]
    unfenced = _FENCED.sub(lambda fenced: " " * len(fenced[0]), text)
    for match in (_DEFINITION if _CODE.search(title) else _HEADING).finditer(unfenced):
        depth = len(match[1].expandtabs(4))
        above = [*(heading for heading in above if heading[0] < depth), (depth, match[2])]
        begun.append(match.start())
        of.append(" ".join(heading for _, heading in above))
    return [of[bisect_right(begun, start - 1)] for start in starts]


def of_headings(of: Examples, tools: Tools, retrieval: Retrieval) -> tuple[dict[str, np.ndarray], float]:
    """ER by BM25 that counts the words of headings, too; and the share of candidates that stand below one."""
    asked = [question.question for questions in measured_questions(tools).values() for question in questions]
    corpora, candidates, options = retrieval.corpora, of.candidates, tools.settings.bm25
    layout, mean = corpora.layout, corpora.statistics.mean_lengths["level_1"]
    texts, lines = corpora.texts(range(len(layout.documents))), list[str]()
    for document, (first, last) in enumerate(pairwise(layout.offsets.tolist())):
        lines += paths(*texts[document], layout.spans[first:last, 0].tolist())
    rows, terms = tokenise(lines, "en")
    counts = [Counter(terms[term] for term in row) for row in rows]
    lengths = np.array([len(row) for row in rows])
    norms = saturation(corpora.words.lengths + lengths, mean, options.k1, options.b)
    scores = np.zeros((2, len(candidates.piece)), np.float32)
    for number, of_question in enumerate(retrieval.with_queries(asked).terms):
        at = slice(*candidates.offsets[number : number + 2].tolist())
        pieces, matches = candidates.piece[at], corpora.words.matches(of_question)
        weights = matches.times * corpora.statistics.weights.of(matches.terms)["level_1"]
        inside = matches.counts_in(pieces).astype(float)
        above = np.array([[counts[piece][term] for term in matches.terms] for piece in pieces], float).T
        scores[0, at] = weights @ ((inside + above) / (inside + above + norms[pieces]))
        scores[1, at] = weights @ (above > 0)
    return variants(of, ["bm25-1"], scores[0][:, None], scores[1]), float((lengths[candidates.piece] > 0).mean())


def compared(name: str, of: Examples, base: np.ndarray, recalls: Mapping[str, np.ndarray]) -> dict[str, str]:
    """A row: ER by `fused`, and what others have more."""
    row = {"collection": name, "questions": f"{len(base):,}", "fused": f"{base.mean():.3f}"}
    return row | differences(0 * base, {other: base - own for other, own in recalls.items()}, of.documents)


@click.command()
@click.argument("what", type=click.Choice(["encode", "late", "learn", "headings"]))
@click.argument("names", nargs=-1, type=click.Choice(list(COLLECTIONS)))
@click.option("--homes", multiple=True, type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--vectors", default=".mog/late", type=click.Path(path_type=Path), help="Folder of late vectors.")
def main(what: str, names: Sequence[str], homes: Sequence[Path], vectors: Path) -> None:
    rows, plain, means = list[dict[str, Any]](), dict[str, Examples](), dict[str, Examples]()
    for name in names:
        folder = next(folder for folder in homes if (folder / name / "home").exists())
        tools, retrieval = opened(name, folder)
        if what == "encode":
            rows.append(encoded(name, tools, retrieval, vectors))
            continue
        of = questions_of(name, folder)
        if what == "headings":
            recalls, share = of_headings(of, tools, retrieval)
            rows.append(compared(f"{name}, {share:.0%}", of, recall(of, fused(of)), recalls))
            continue
        dense = [expert for expert in of.experts if expert.startswith("dense-")]
        own = products(of, retrieval.corpora.layout, np.load(vectors / f"{name}.npy"), len(dense))
        plain[name], means[name] = of, replaced(of, dense, own, 0.5)
        if what == "late":
            # Late vectors have to do better than the plain ones once more.
            twice = added(of, of.candidates.scores[:, of.experts.index("dense-1")], 0.2)
            recalls = variants(of, dense, own, own[:, 0]) | {"plain added 0.2": twice}
            rows.append(compared(name, of, recall(of, fused(of)), recalls))
    if what == "learn":
        before, after = left_out(plain), left_out(means)
        rows = [compared(name, of, before[name], {"mean, learned": after[name]}) for name, of in plain.items()]
    click.echo(markdown.table(rows, 400))


if __name__ == "__main__":
    main()
