"""What a run needs per million chunks: the most memory while each asset is built, and the bytes it leaves on disk.

python benchmarks/memory.py --chunks 50000 --chunks 200000

Makes a corpus of generated text, with questions, for each size, and runs `mog run` on it in a process of its own. The
encoder is a stand-in as wide as the default one: an embedding of words, with random weights and no layers, because what
a run holds of vectors depends on their number and size alone. A transformer adds its weights and the activations of a
batch, whatever the corpus is. Figures are of the process: the interpreter and its libraries are in each of them.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import click
import yaml

from mog_assets.build import markdown

VOCABULARY = 20_000
SIZE = 384
SENTENCE_WORDS = 13
# 2,500 characters: some five chunks of the default size.
DOCUMENT_SENTENCES = 28
CHUNKS_OF_DOCUMENT = 5.6
QUESTIONS = 200
MIB = 1 << 20


def words(rng: random.Random) -> list[str]:
    """Different words that can be spoken, none of them a stop word."""
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    found: dict[str, None] = {}
    while len(found) < VOCABULARY:
        found["".join(rng.choices(syllables, k=rng.randint(2, 4)))] = None
    return list(found)


def make_encoder(folder: Path, known: list[str]) -> None:
    """Save the stand-in where `encoder.model` finds it."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *known]
    tokenizer = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    sizes = {"hidden_size": SIZE, "num_hidden_layers": 0, "num_attention_heads": 12, "intermediate_size": SIZE}
    BertModel(BertConfig(vocab_size=len(names), max_position_embeddings=128, **sizes)).save_pretrained(folder)


def make_project(folder: Path, chunks: int) -> None:
    """Write a corpus of about so many level-1 chunks, questions, an encoder and the settings."""
    rng = random.Random(0)
    known = words(rng)
    # As in any language: few words are in most sentences, most words in few.
    weights = [1 / (rank + 3) for rank in range(len(known))]
    make_encoder(folder / "encoder", known)
    documents = round(chunks / CHUNKS_OF_DOCUMENT)
    asked = set(rng.sample(range(documents), min(QUESTIONS, documents)))
    with (folder / "made.jsonl").open("w") as corpus, (folder / "questions.jsonl").open("w") as questions:
        for number in range(documents):
            drawn = rng.choices(known, weights, k=DOCUMENT_SENTENCES * SENTENCE_WORDS)
            rows = [drawn[i : i + SENTENCE_WORDS] for i in range(0, len(drawn), SENTENCE_WORDS)]
            sentences = [" ".join(row).capitalize() + ". " for row in rows]
            name, place = f"document {number}", rng.randrange(len(sentences))
            corpus.write(json.dumps({"id": name, "title": " ".join(drawn[:4]), "text": "".join(sentences)}) + "\n")
            if number in asked:
                start = sum(map(len, sentences[:place]))
                span = {"corpus": "made", "doc": name, "start": start, "end": start + len(sentences[place]) - 1}
                question = {
                    "id": f"question {number}",
                    "question": " ".join(rng.sample(rows[place], 6)) + "?",
                    "kind": "made",
                    "split": rng.choice(["train", "train", "dev"]),
                    "evidence": [span],
                }
                questions.write(json.dumps(question) + "\n")
    values = {
        "home": "home",
        "corpora": {"made": {"path": "made.jsonl"}},
        "question_sets": {
            "made": {"path": "questions.jsonl", "corpora": ["made"], "train": ["train"], "test": ["dev"]}
        },
        "encoder": {"model": str(folder / "encoder"), "max_length": 128},
    }
    (folder / "mog.yaml").write_text(yaml.safe_dump(values))


def highest() -> int:
    """Most bytes that this process has had in memory since the count was started anew."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def run_recorded(folder: Path) -> None:
    """`mog run` in this process; writes what every asset needed to `recorded.json`."""
    from mog_assets.build import automation
    from mog_assets.cli import main

    made, rows = automation.materialise, []

    def recording(recipe: Any, partition: str | None, *arguments: Any) -> Any:
        Path("/proc/self/clear_refs").write_text("5")
        started = time.monotonic()
        outcome = made(recipe, partition, *arguments)
        seconds = time.monotonic() - started
        files = outcome.artefact.manifest.files.values() if outcome.artefact else []
        size = sum(entry["bytes"] for entry in files)
        counts = outcome.artefact.manifest.counts if outcome.artefact else {}
        row = {"asset": recipe.key, "peak": highest(), "bytes": size, "seconds": seconds, "counts": counts}
        rows.append(row)
        (folder / "recorded.json").write_text(json.dumps(rows))
        return outcome

    automation.materialise = recording  # type: ignore[attr-defined]
    main(["run", "--config", str(folder / "mog.yaml")])


def size_of(folder: Path) -> int:
    """Bytes that the files of a folder take on disk; those of the vector store have holes."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def measured(folder: Path, chunks: int) -> dict[str, Any]:
    """Make a project and run it: peak and bytes by asset, the bytes of home's folders, and the number of chunks."""
    folder.mkdir()
    make_project(folder, chunks)
    subprocess.run([sys.executable, __file__, "--project", str(folder)], check=True, stdout=subprocess.DEVNULL)
    rows = json.loads((folder / "recorded.json").read_text())
    counts = next(row["counts"] for row in rows if row["asset"] == "chunks/level_1")
    disk = {entry.name: size_of(entry) for entry in sorted((folder / "home").iterdir()) if entry.is_dir()}
    return {"chunks": int(counts["chunks"]), "rows": rows, "disk": disk}


def report(found: list[dict[str, Any]]) -> str:
    """Tables of peaks and disk, with the slope between the smallest and the largest corpus."""
    small, large = found[0], found[-1]
    millions = (large["chunks"] - small["chunks"]) / 1e6
    peaks: dict[str, list[float]] = defaultdict(list)
    left: dict[str, list[float]] = defaultdict(list)
    for each in found:
        for row in each["rows"]:
            peaks[row["asset"]].append(row["peak"] / MIB)
            left[row["asset"]].append(row["bytes"] / MIB)

    def table(values: dict[str, list[float]], what: str) -> str:
        rows = []
        for name, mib in values.items():
            if len(mib) == len(found):
                sizes = {f"{what} at {each['chunks']:,}": round(mib[i]) for i, each in enumerate(found)}
                slope = round((mib[-1] - mib[0]) / millions) if millions else 0
                rows.append({"": name, **sizes, "per million chunks": slope})
        return markdown.table(rows, 40)

    disk = {name: [each["disk"].get(name, 0) / MIB for each in found] for name in large["disk"]}
    parts = ("most memory, MiB", peaks), ("files, MiB", left), ("disk, MiB", disk)
    return "\n\n".join(table(values, what) for what, values in parts)


@click.command(help=__doc__)
@click.option("--chunks", multiple=True, type=int, default=(50_000, 200_000), help="About so many level-1 chunks.")
@click.option("--project", type=click.Path(path_type=Path), hidden=True)
def main(chunks: tuple[int, ...], project: Path | None) -> None:
    """Measure, and print the tables."""
    if project:
        run_recorded(project)
        return
    with tempfile.TemporaryDirectory() as scratch:
        found = [measured(Path(scratch) / str(size), size) for size in sorted(chunks)]
    click.echo(report(found))


if __name__ == "__main__":
    main()
