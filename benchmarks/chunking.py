"""Chunking speed, in megabytes of UTF-8 text a second on one core, of every chunker and of LangChain's splitter.

taskset -c 0 python benchmarks/chunking.py --corpus ../shared/data/medquad/corpora/gard.jsonl.gz

Without a corpus the text is made up. Encoding sentences, for chunkers that take their vectors, is timed apart and on
a share of the text, because it takes thousands of times as long. LangChain's recursive splitter is timed where
langchain-text-splitters is installed; it gives the same pieces, which is checked.
"""

import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pandas as pd
import torch

from mog_assets.documents.reading import read_corpus
from mog_assets.papers.learned_chunking.learned import Scorer, Shape, network, stored
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EncoderSettings
from mog_assets.text.chunkers import CHUNKERS, Options
from mog_assets.text.cuts import spans_to, unit_chars, units

REPEATS = 3
# Text that chunkers with a model are timed on.
TRAINED_MB = 2
# Words, sentences and paragraphs about as long as those of medquad.
WORDS, SENTENCES, LINES, DOCUMENTS = (3, 9), (5, 30), (1, 12), 2000


def made_up(seed: int = 0) -> list[str]:
    """Documents of invented words."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(*WORDS))) for _ in range(5000)]

    def sentence() -> str:
        return " ".join(rng.choices(words, k=rng.randint(*SENTENCES))).capitalize() + "."

    def line() -> str:
        return " ".join(sentence() for _ in range(rng.randint(1, 6)))

    return ["\n\n".join(line() for _ in range(rng.randint(*LINES))) for _ in range(DOCUMENTS)]


def megabytes(texts: list[str]) -> float:
    """Of UTF-8."""
    return sum(len(text.encode()) for text in texts) / 1e6


def best_seconds(cut: Callable[[], None]) -> float:
    """The shortest of a few times."""
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        cut()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def random_vectors(texts: list[str], finest_chars: int, size: int) -> list[np.ndarray]:
    """Vectors in place of those of the units: cutting takes as long with any."""
    rng = np.random.default_rng(0)
    counts = [len(units(text, unit_chars(finest_chars))) for text in texts]
    return [rng.normal(size=(n, size)).astype(np.float16) / np.float16(size**0.5) for n in counts]


def untrained(size: int) -> Path:
    """The file of a scorer that has learned nothing, for vectors of a size."""
    shape = Shape(size)
    weights = {name: tensor.detach().numpy() for name, tensor in network(shape).state_dict().items()}
    path = Path(tempfile.mkdtemp()) / "chunker.safetensors"
    path.write_bytes(stored(Scorer(weights, {"shape": vars(shape), "penalty": 1.0})))
    return path


def langchain_splitter(finest_chars: int) -> Callable[[str], list[str]] | None:
    """LangChain's recursive splitter with the options that give the pieces of `recursive`, None where it is missing."""
    try:
        from langchain_text_splitters import RecursiveCharacterTextSplitter
    except ImportError:
        return None
    splitter = RecursiveCharacterTextSplitter(
        chunk_size=finest_chars, chunk_overlap=0, keep_separator="end", strip_whitespace=False
    )
    return splitter.split_text


@click.command()
@click.option("--corpus", "paths", multiple=True, type=click.Path(exists=True, path_type=Path), help="File or folder.")
@click.option("--finest-chars", default=500, show_default=True)
@click.option("--tokens", default=100, show_default=True, help="Of a chunk, for chunkers that count them.")
@click.option("--encoded-mb", default=0.2, show_default=True, help="Text whose sentences are encoded; 0 for none.")
def main(paths: tuple[Path, ...], finest_chars: int, tokens: int, encoded_mb: float) -> None:
    torch.set_num_threads(1)
    texts = [d.text for path in paths for d in read_corpus(path).documents] or made_up()
    size = megabytes(texts)
    print(f"{len(texts)} documents, {size:.2f} MB, finest_chars {finest_chars}", end="\n\n")
    vectors = random_vectors(texts, finest_chars, 384)
    rows = []
    chosen = [(name, Options(finest_chars)) for name in CHUNKERS] + [("fixed", Options(finest_chars, tokens))]
    for name, options in chosen:
        chunker, taken = CHUNKERS[name], len(texts)
        if chunker.trained:
            taken = 1 + int(np.searchsorted(np.cumsum([len(t.encode()) for t in texts]), TRAINED_MB * 1e6))
            options = replace(options, weights=untrained(384))
        split = chunker.make(options)
        given = list(zip(texts[:taken], vectors if chunker.sentence_vectors else [None] * len(texts), strict=False))

        def cut(split=split, given=given) -> None:
            for text, own in given:
                split(text, own)

        chunks, read = sum(len(split(text, own)) for text, own in given), [text for text, _ in given]
        label = f"{name}, {options.tokens} tokens" if options.tokens else name
        row = {"chunker": label, "MB/s": megabytes(read) / best_seconds(cut)}
        # Weights that have learned nothing take as long, and cut anywhere.
        rows.append(row if chunker.trained else row | {"mean characters": sum(map(len, read)) / chunks})
    if library := langchain_splitter(finest_chars):
        seconds = best_seconds(lambda: [library(text) for text in texts] and None)
        recursive = CHUNKERS["recursive"].make(Options(finest_chars))
        for text in texts:
            assert library(text) == [text[start:end] for start, end in recursive(text, None)]
        rows.append({"chunker": "LangChain's recursive", "MB/s": size / seconds})
    else:
        print("langchain-text-splitters is not installed: its splitter is not timed", end="\n\n")
    if encoded_mb:
        sample = texts[: int(np.searchsorted(np.cumsum([len(t.encode()) for t in texts]), encoded_mb * 1e6)) + 1]
        spans = [(text, spans_to(units(text, unit_chars(finest_chars)))) for text in sample]
        found = [text[start:end] for text, both in spans for start, end in both.tolist()]
        encoder = Encoder(EncoderSettings())
        encoder.encode(["The model is loaded before the clock starts."])
        started = time.perf_counter()
        encoder.encode(found)
        seconds = time.perf_counter() - started
        label = f"encoding of sentences, {encoder.device}, {encoder.dtype}"
        rows.append({"chunker": label, "MB/s": megabytes(sample) / seconds, "sentences/s": len(found) / seconds})
    print(pd.DataFrame(rows).to_markdown(index=False, floatfmt=".3g"))


if __name__ == "__main__":
    main()
