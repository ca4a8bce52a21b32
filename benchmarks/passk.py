"""Pass@5, @10 and @20 on the set of Anthropic's contextual retrieval, and what would lift them.

mog import beir ../shared/data/anthropic_code_chunks && mog run        in a folder of its own
python benchmarks/passk.py --titled titled        the same set with paths as titles, to be imported and built likewise
python benchmarks/passk.py --chunks that/mog.yaml --files .mog/development/anthropic_code/mog.yaml

Pass@k is the share of a question's golden chunks among the k that are retrieved, averaged over 248 questions, as in the
authors' notebook, where a chunk with the same text counts, too. Their 737 chunks of 90 files are the documents. With
whole files as documents, passages of as many characters as k chunks have (674 each) are taken, and the share of the
golden chunks' characters in them is counted. Stored runs are as deep as `search/depth.py` says: for nDCG@10 ten
documents, or as many passages as the setting `k`. Rankings are deeper, and `k: 50` stores 20 documents of each.

`--lift` tries on top what the default leaves out, each from 0 to 1 over all chunks: BM25 (bm25s, English stems) whose
words of identifiers also stand apart, with the path of the file in front; with the 300 characters before a chunk;
vectors with the path; late vectors, means over the tokens of a chunk within 128 tokens before, 64 after and the path;
and the best score of the same file. It encodes every chunk twice, two minutes of one core. `--worst 20` lists
questions.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import bm25s
import click
import numpy as np
import ranking  # noqa: F401
import Stemmer
from bm25s.stopwords import STOPWORDS_EN

from mog_assets import config
from mog_assets.build import markdown
from mog_assets.build.tools import Tools
from mog_assets.evaluate.significance import bootstrap_interval, by_document, permutation_p
from mog_assets.questions.sets import Question, load_questions
from mog_assets.resources.embedded import embedded_folder
from mog_assets.resources.encoder import Encoder
from mog_assets.search.depth import cut
from mog_assets.search.methods import parse
from mog_assets.search.passages import Passages
from mog_assets.search.retrieval import Retrieval
from mog_assets.text.chunks import chunk_text

KS = (5, 10, 20)
METHODS = ("bm25:fixed-1", "dense:fixed-1", "hybrid:fixed-1", "fused")
# github.com/anthropics/claude-cookbooks, capabilities/contextual-embeddings/guide.ipynb.
PUBLISHED = {
    "vectors of an API model": (80.92, 87.15, 90.06),
    "contextual vectors (a language model reads the file for each chunk)": (86.37, 92.81, 93.78),
    "contextual vectors and contextual BM25": (86.43, 93.21, 94.99),
    "the same, reranked": (91.24, 94.79, 96.30),
}
# Tokens of late vectors: before and after a chunk, of its path, and all together. Characters of words before a chunk.
BEFORE, AFTER, PATH, MOST, CHARACTERS = 128, 64, 40, 510, 300


@dataclass(frozen=True)
class Chunks:
    """The golden chunks of questions, each with those of the same text, and where each chunk lies in which file."""

    names: Sequence[str]
    gold: Sequence[Sequence[Sequence[int]]]
    places: Sequence[tuple[str, int, int]]
    files: dict[str, str]

    @property
    def owner(self) -> np.ndarray:
        """Return the number of the file of every chunk."""
        numbers = {path: number for number, path in enumerate(self.files)}
        return np.array([numbers[path] for path, _, _ in self.places])

    def passes(self, orders: Sequence[Sequence[int]]) -> np.ndarray:
        """Return Pass@k of every question for chunks in order, shape (questions, ks)."""
        pairs = list(zip(self.gold, orders, strict=True))
        found = [[[not set(same).isdisjoint(order[:k]) for same in gold] for k in KS] for gold, order in pairs]
        return np.array([[np.mean(golden) for golden in own] for own in found])


def lines(path: Path) -> Iterator[dict[str, object]]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        yield from map(json.loads, stream)


def opened(path: Path) -> tuple[Tools, Retrieval, list[Question]]:
    """Open a project with its questions."""
    tools = Tools(config.load(path))
    ((name, own),) = tools.settings.question_sets.items()
    questions = load_questions(tools.store.read("questions").path(f"{name}.parquet"), own.test)
    questions = sorted(questions, key=lambda question: question.id.rpartition("/")[2])
    retrieval = Retrieval.open(tools, tools.store.read, list(tools.settings.corpora))
    return tools, retrieval.with_queries([question.question for question in questions]), questions


def write_titled(data: Path, folder: Path) -> None:
    """Write the set of chunks in BEIR's form, with the paths of their files as titles."""
    (folder / "qrels").mkdir(parents=True)
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        shutil.copyfile(data.with_name("anthropic_code_chunks") / name, folder / name)
    paths, corpus = {row["id"]: row["doc"] for row in lines(data / "chunks.jsonl.gz")}, folder / "corpus.jsonl"
    rows = [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines()]
    corpus.write_text("".join(json.dumps(row | {"title": paths[row["_id"]]}) + "\n" for row in rows), encoding="utf-8")


def described(retrieval: Retrieval, questions: Sequence[Question], data: Path) -> Chunks:
    names = list(retrieval.corpora.layout.documents)
    numbers = {name: number for number, name in enumerate(names)}
    places = {row["id"]: (row["doc"], row["start"], row["end"]) for row in lines(data / "chunks.jsonl.gz")}
    files = {row["id"]: row["text"] for row in lines(data / "corpora" / "anthropic_code.jsonl.gz")}
    golden = {row["id"].rpartition("/")[2]: row["golden"] for row in lines(data / "golden.jsonl.gz")}  # type: ignore
    gold = [[[numbers[name] for name in same] for same in golden[question.id]] for question in questions]
    return Chunks(names, gold, [places[name] for name in names], files)  # type: ignore[misc]


def documents_in_order(ranked: Passages, questions: int) -> list[list[int]]:
    """Return the documents of every question, each at its first passage."""
    bounds = np.searchsorted(ranked.question, np.arange(questions + 1)).tolist()
    return [list(dict.fromkeys(ranked.document[a:b].tolist())) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


def covered(retrieval: Retrieval, ranked: Passages, of: Chunks, questions: int) -> np.ndarray:
    """Return the share of golden characters in passages of as many characters as k chunks, (questions, ks)."""
    numbers = {name: number for number, name in enumerate(retrieval.corpora.layout.documents)}
    size = np.mean([end - start for _, start, end in of.places])
    bounds = np.searchsorted(ranked.question, np.arange(questions + 1)).tolist()
    shares = np.zeros((questions, len(KS)))
    for number, (first, last) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
        start, end, document = (c[first:last] for c in (ranked.start, ranked.end, ranked.document))
        before = np.cumsum(end - start) - (end - start)
        for column, k in enumerate(KS):
            stop = np.minimum(end, start + np.maximum(k * size - before, 0))
            for same in of.gold[number]:
                found = []
                for path, low, high in (of.places[chunk] for chunk in same):
                    own = document == numbers[path]
                    hit = np.clip(np.minimum(stop[own], high) - np.maximum(start[own], low), 0, None).sum()
                    found.append(min(hit / (high - low), 1))
                shares[number, column] += max(found) / len(of.gold[number])
    return shares


def row(name: str, values: np.ndarray, **further: str) -> dict[str, str]:
    return {"": name, **{f"@{k}": f"{100 * v:.1f}" for k, v in zip(KS, values.mean(axis=0), strict=True)}, **further}


def words_of(text: str) -> list[str]:
    """Return the words of a text, those of identifiers whole and apart."""
    found = []
    for word in re.findall(r"\w+", text):
        apart = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", word))
        parts = apart.replace("_", " ").split()
        found += [word, *(parts if len(parts) > 1 else ())]
    return [word for word in (w.lower() for w in found) if word not in STOPWORDS_EN]


def by_words(questions: Sequence[str], texts: Sequence[str]) -> np.ndarray:
    stem, index = Stemmer.Stemmer("english").stemWords, bm25s.BM25()
    index.index([stem(words_of(text)) for text in texts], show_progress=False)
    known = [[word for word in stem(words_of(text)) if word in index.vocab_dict] for text in questions]
    return np.array([index.get_scores(words) if words else np.zeros(len(texts)) for words in known])


def late_vectors(of: Chunks) -> np.ndarray:
    """Return means over the tokens of every chunk of a pass over it, what is around it, and the path of its file."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = embedded_folder("encoder.model")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    read = {
        path: tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        for path, text in of.files.items()
    }
    vectors = []
    for path, start, end in of.places:
        begins = np.array(read[path]["offset_mapping"])[:, 0]
        first, last = np.searchsorted(begins, [start, end]).tolist()
        head = [tokenizer.cls_token_id, *tokenizer(path, add_special_tokens=False)["input_ids"][:PATH]]
        count = min(max(last - first, 1), MOST - len(head))
        low = max(0, first - min(BEFORE, MOST - len(head) - count))
        high = first + count + min(AFTER, MOST - len(head) - count - (first - low))
        tokens = [*head, *read[path]["input_ids"][low:high], tokenizer.sep_token_id]
        with torch.inference_mode():
            states = model(torch.tensor([tokens])).last_hidden_state[0]
        mean = states[len(head) + first - low :][:count].mean(dim=0).numpy()
        vectors.append(mean / np.linalg.norm(mean))
    return np.array(vectors)


def between(scores: np.ndarray) -> np.ndarray:
    """Return scores from 0, the worst chunk of a question, to 1, its best."""
    least = scores.min(axis=1, keepdims=True)
    return (scores - least) / np.maximum(scores.max(axis=1, keepdims=True) - least, 1e-9)


def lifted(of: Chunks, questions: Sequence[str], encoder: Encoder, fused: np.ndarray) -> dict[str, np.ndarray]:
    """Return scores of all chunks by what was tried."""
    owner = of.owner

    def of_file(scores: np.ndarray, weight: float = 0.4, best: int = 1) -> np.ndarray:
        total = scores.copy()
        for number in range(len(of.files)):
            columns = owner == number
            most = -np.sort(-scores[:, columns], axis=1)[:, :best]
            total[:, columns] += weight * most.sum(axis=1, keepdims=True) / best
        return total

    def texts(before: int) -> list[str]:
        return [chunk_text(path, of.files[path][max(start - before, 0) : end]) for path, start, end in of.places]

    asked = encoder.encode(list(questions)).astype(np.float32)
    words, longer = between(by_words(questions, texts(0))), between(by_words(questions, texts(CHARACTERS)))
    vectors = between(asked @ encoder.encode(texts(0)).astype(np.float32).T)
    late = between(asked @ late_vectors(of).T)
    return {
        "`fused` + .6 of the file's best": of_file(fused, 0.6),
        "`fused` + .6 of the mean of the file's best three": of_file(fused, 0.6, 3),
        "words, path": words,
        "words, path, 300 characters before": longer,
        "vectors, path": vectors,
        "late vectors": late,
        "words + vectors": words + vectors,
        "words + vectors + .4 of the file's best": of_file(words + vectors),
        "words with 300 before + vectors + .4 of the file's best": of_file(longer + vectors),
        "words + late vectors": words + late,
        "words + late vectors + .4 of the file's best": of_file(words + late),
        "words with 300 before + late vectors + .4 of the file's best": of_file(longer + late),
    }


@click.command()
@click.option("--chunks", type=click.Path(path_type=Path), default=Path("mog.yaml"), help="mog.yaml of the chunks.")
@click.option("--files", type=click.Path(path_type=Path), default=Path("mog.yaml"), help="mog.yaml of whole files.")
@click.option("--data", type=click.Path(exists=True, path_type=Path), default=Path("../shared/data/anthropic_code"))
@click.option("--lift", is_flag=True, help="Try what the default leaves out.")
@click.option("--titled", type=click.Path(path_type=Path), help="Write the set with paths as titles here, and end.")
@click.option("--worst", default=0, help="List so many questions with the lowest Pass@20 and Pass@5 by `fused`.")
def main(chunks: Path, files: Path, data: Path, lift: bool, titled: Path | None, worst: int) -> None:
    if titled is not None:
        write_titled(data, titled)
        return
    tools, retrieval, questions = opened(chunks)
    of, count = described(retrieval, questions, data), len(questions)
    rows, passes, scores = [], {}, np.zeros((count, len(of.names)))
    for name in METHODS:
        ranked = retrieval.rank(parse(name, tools.settings), 1)
        orders = documents_in_order(ranked, count)
        passes[name] = of.passes(orders)
        kept = {k: min(map(len, documents_in_order(cut(ranked, k), count))) for k in (tools.settings.k, 50, 100)}
        depth = ", ".join(f"k = {k}: {least}" for k, least in kept.items())
        rows.append(row(name, passes[name], **{"fewest documents of a ranking": str(min(map(len, orders)))}))
        rows[-1]["of a stored run"] = depth
    np.maximum.at(scores, (ranked.question, ranked.document), ranked.score)
    rows += [row(name, np.array([own]) / 100) for name, own in PUBLISHED.items()]
    click.echo(markdown.table(rows, 400))
    owner = [of.places[gold[0][0]][0] for gold in of.gold]
    totals = by_document(passes["fused"] - passes["hybrid:fixed-1"], owner)
    low, high = bootstrap_interval(totals)
    ends = zip(KS, totals.mean, low, high, permutation_p(totals), strict=True)
    click.echo(
        "fused − hybrid-1: " + "; ".join(f"@{k} {m:+.3f} [{a:+.3f}, {b:+.3f}], p {p:.3f}" for k, m, a, b, p in ends)
    )

    settings, whole, same = opened(files)
    assert [question.question for question in same] == [question.question for question in questions]
    rows = [row(name, covered(whole, whole.rank(parse(name, settings.settings), 1), of, count)) for name in METHODS]
    click.echo("\nWhole files as documents, passages of as many characters as 5, 10 and 20 chunks\n")
    click.echo(markdown.table(rows, 400))
    if lift:
        encoder = Encoder(tools.settings.encoder)
        tried = lifted(of, [question.question for question in questions], encoder, between(scores))
        rows = [row(n, of.passes(np.argsort(-own, axis=1, kind="stable").tolist())) for n, own in tried.items()]
        click.echo("\n" + markdown.table(rows, 400))
    order = np.lexsort((passes["fused"][:, 0], passes["fused"][:, 2]))[:worst].tolist()
    for number in order:
        paths = ", ".join(sorted({of.places[same[0]][0] for same in of.gold[number]}))
        click.echo(f"{passes['fused'][number].round(2).tolist()} {questions[number].question} ({paths})")


if __name__ == "__main__":
    main()
