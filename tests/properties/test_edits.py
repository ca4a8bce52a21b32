"""Rounds of random edits, the build after each killed at a random moment, end as a build from nothing."""

import csv
import gzip
import json
import os
import random
import shutil
import time

import pytest
import yaml
from crashes import artefacts, mog, points  # noqa: F401

from mog_assets import config
from mog_assets.cli.verification import verify

SEED = int(os.environ.get("MOG_TEST_SEED") or random.SystemRandom().randrange(2**32))
NAMES = ["a.md", "b.txt", "c.html", "d.md", "sub/e.md", "f.txt.gz"]
CORPORA = ("folder", "cards", "rows")
# Words of one length, so that an edit may keep the size of its file.
BIRDS = ["heron", "stork", "crane", "eagle", "robin", "finch"]
SENTENCES = [
    "The {} stands still in the shallow water. It waits for a fish.",
    "In winter the {} leaves the pond and flies south over the hill.",
    "A young {} eats beetles, snails and frogs near the bank.\r\n\r\nIt sleeps in the reeds.",
]


def nested(levels):
    value = "end"
    for _ in range(levels):
        value = {"in": value}
    return value


METADATA = [
    {},
    {"by": "me", "tags": ["a", "b"], "n": 1, "x": 0.5, "none": None, "yes": True},
    {"by": "me", "deep": nested(130)},
    {"deep": nested(300)},
    {"long": 10**310, "kept": 2**64 - 1, "below": -(2**63) - 1},
    {"large": "x" * 20_000, "small": "y"},
    {"": {"": [[], {}]}, "a.b[0]": "\u202e\x1b[31m\0", "mog": {"path": "none"}},
    {"aliases": ["wader", "fisher"], "date": "2024-02-30", "tiny": 5e-324, "huge": 1e308},
    {"half": "\ud800"},
    ["a", {"list": 1}],
    "text",
]


class Sources:
    """The documents of three corpora: a folder, a file of lines and a table. Every file has one and the same time."""

    def __init__(self, folder, draw):
        self.folder, self.draw = folder, draw
        self.rows = {corpus: {name: self.document() for name in "abc"} for corpus in ("cards", "rows")}
        self.put(self.path("always.txt"), b"A file that is always there.")
        for name in NAMES[:4]:
            self.write(name)
        self.write_rows()

    def document(self):
        text = "\n".join(self.draw.sample(SENTENCES, self.draw.randint(1, 3))).format(*[self.draw.choice(BIRDS)] * 3)
        return {"text": text, "metadata": self.draw.choice(METADATA)}

    def path(self, name):
        return self.folder / "folder" / name

    def write(self, name):
        document, path = self.document(), self.path(name)
        text = document["text"].replace("{}", self.draw.choice(BIRDS))
        if name.endswith(".md") and isinstance(document["metadata"], dict) and "half" not in document["metadata"]:
            text = f"---\n{json.dumps(document['metadata'])}\n---\n# Birds\n{text}"
        self.put(path, gzip.compress(text.encode(), mtime=0) if name.endswith(".gz") else text.encode())

    def put(self, path, content):
        if path.is_dir():
            shutil.rmtree(path)
        if path.parent.is_file():
            path.parent.unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (1e9, 1e9))

    def write_rows(self):
        lines = [json.dumps({"id": name, **document}) for name, document in self.rows["cards"].items()]
        self.put(
            self.folder / "cards.jsonl",
            "\n".join([*lines, json.dumps({"id": "always", "text": SENTENCES[0]}), "{no line"]).encode(),
        )
        with (self.folder / "rows.csv").open("w", newline="", encoding="utf-8") as stream:
            table = csv.writer(stream)
            table.writerow(["id", "text", "note"])
            # Without the last cell, or with one too many.
            for name, document in self.rows["rows"].items():
                table.writerow([name, document["text"], *["note"] * self.draw.randint(0, 2)])
            table.writerow(["always", "A row that is always there."])
        os.utime(self.folder / "rows.csv", (1e9, 1e9))

    def edit(self):
        """One random edit."""
        kind = self.draw.choice(["write", "disguise", "remove", "rename", "nest", "flatten", "rows", "disguise rows"])
        files = sorted(path for path in (self.folder / "folder").rglob("*") if path.is_file())
        files.remove(self.path("always.txt"))
        if not files:
            return self.write(self.draw.choice(NAMES))
        path = self.draw.choice(files)
        one, other = self.draw.sample(BIRDS, 2)
        if kind == "write":
            self.write(self.draw.choice(NAMES))
        elif kind == "disguise" and path.suffix != ".gz":
            self.put(path, path.read_bytes().replace(one.encode(), other.encode()))
        elif kind == "remove" and len(files) > 2:
            path.unlink()
        elif kind == "rename":
            target = self.path(self.draw.choice(NAMES))
            if not target.exists() and not target.parent.is_file():
                target.parent.mkdir(exist_ok=True)
                path.rename(target)
        elif kind == "nest":
            # A folder in the place of a file, with the file in it.
            self.put(path / path.name, path.read_bytes())
        elif kind == "flatten" and path.parent.name == path.name:
            self.put(path.parent, path.read_bytes())
        elif kind == "rows":
            rows = self.rows[self.draw.choice(["cards", "rows"])]
            name = self.draw.choice("abcd")
            if name in rows and len(rows) > 1 and self.draw.random() < 0.3:
                del rows[name]
            else:
                rows[name] = self.document()
            self.write_rows()
        elif kind == "disguise rows":
            file = self.folder / self.draw.choice(["cards.jsonl", "rows.csv"])
            self.put(file, file.read_bytes().replace(one.encode(), other.encode()))


def configure(folder):
    paths = {"folder": "folder", "cards": "cards.jsonl", "rows": "rows.csv"}
    values = {"home": "home", "corpora": {name: {"path": path} for name, path in paths.items()}}
    values |= {"levels": 2, "buckets": 2, "finest_chars": 50, "encoder": {"device": "cpu"}}
    (folder / "mog.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")


def state(folder):
    """What follows from the documents alone: topics also follow from those of before."""
    found = {place: version for place, version in artefacts(folder).items() if not place[0].startswith("topics")}
    topics = ("topic", "label", "probability")
    bare = {place: {k: v for k, v in payload.items() if k not in topics} for place, payload in points(folder).items()}
    return found, bare


@pytest.mark.full
@pytest.mark.parametrize("rounds", [6])
def test_random_edits_with_killed_builds_end_as_a_build_from_nothing(mog, tmp_path, rounds):
    draw, again = random.Random(SEED), f"run again with MOG_TEST_SEED={SEED}"
    folder, rebuilt = tmp_path / "project", tmp_path / "rebuilt"
    folder.mkdir()
    sources = Sources(folder, draw)
    configure(folder)
    started = time.monotonic()
    done = mog(folder, "build")
    seconds = time.monotonic() - started
    assert done.code == 0, f"{again}: {done.said}"
    moments = sorted(done.reached)
    for _ in range(rounds):
        for _ in range(draw.randint(1, 3)):
            for _ in range(draw.randint(1, 4)):
                sources.edit()
            at = draw.choice(moments)
            kill = {"kill_at": (at, draw.randint(1, 3))} if draw.random() < 0.5 else {"after": draw.random() * seconds}
            killed = mog(folder, "build", **kill)
            assert killed.code in (-9, 0), f"{again}: {killed.said}"
        done = mog(folder, "build")
        assert done.code == 0, f"{again}: {done.said}"
        assert verify(config.load(folder / "mog.yaml"))[1] == []
        shutil.rmtree(rebuilt, ignore_errors=True)
        shutil.copytree(folder, rebuilt, ignore=shutil.ignore_patterns("store", "qdrant", "reading-*"))
        clean = mog(rebuilt, "build")
        assert clean.code == 0, clean.said
        assert state(folder) == state(rebuilt), again
