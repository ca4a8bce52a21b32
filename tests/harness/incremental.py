"""Small projects that are edited and built, step by step."""

import json
import tempfile
from collections import Counter
from copy import deepcopy
from pathlib import Path
from unittest.mock import patch

import pytest
import yaml
from hypothesis import strategies as st
from shared import QDRANT, copy_folder

from mog_assets import config
from mog_assets.build import plan
from mog_assets.build.materialising import materialise
from mog_assets.build.tools import Tools
from mog_assets.config.budget import Budget
from mog_assets.index import chunk_assets
from mog_assets.index.corpora import Corpora
from mog_assets.index.postings import saturation
from mog_assets.resources import publishing
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EncoderSettings
from mog_assets.resources.files import interrupt_with
from mog_assets.search.methods import parse
from mog_assets.search.retrieval import Retrieval
from mog_assets.text.terms import terms_of

HERON = "The grey heron stands still in shallow water. It waits for a fish. Then it strikes with its bill. "
OTTER = "The otter swims at dusk. It eats fish and crayfish. Its holt is under a bank of the river. "
NEWT = "The newt lives in the pond in spring. It spends the winter under stones. "
# Waiting for a disk at every write would take nearly all of the time.
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
# Assets of all corpora that are built.
UNPARTITIONED = ("questions", "names", "statistics", "hop_statistics", "soft_labels", "hop_soft_labels", "candidates")


class Interrupted(BaseException):
    """What nothing catches, like a signal."""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """One vector cache for all homes: equal texts have equal bytes whatever batch they were encoded in."""
    return Encoder(EncoderSettings(), tmp_path_factory.mktemp("vectors"))


@pytest.fixture(autouse=True)
def nothing_is_drawn(monkeypatch):
    """Pictures are no part of the state, and take most of the time."""
    monkeypatch.setattr(chunk_assets, "length_histogram", lambda *_: b"")


class Project:
    """Two corpora, one a file and one a folder, in a home of their own; `documents` is what their sources hold."""

    def __init__(self, folder, encoder, /, home="home", **options):
        self.folder, self.encoder, self.options = folder, encoder, options
        self.documents = {"file": {}, "folder": {}}
        (folder / "folder").mkdir(parents=True, exist_ok=True)
        values = {
            "home": home,
            "corpora": {"file": {"path": "file.jsonl"}, "folder": {"path": "folder"}},
            "levels": 2,
            "buckets": 2,
            "finest_chars": 60,
            **QDRANT,
            **options,
        }
        (folder / f"{home}.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
        self.settings = config.load(folder / f"{home}.yaml")

    @property
    def tools(self):
        tools = Tools(self.settings)
        vars(tools)["encoder"] = self.encoder
        return tools

    def copied(self, folder, encoder):
        """The same in another folder, with what was built."""
        copy_folder(self.folder, folder)
        copy = Project(folder, encoder, self.settings.home.name, **self.options)
        copy.documents = deepcopy(self.documents)
        return copy

    def set(self, **options):
        """Change settings; `encoder` gets the vector cache that the encoder had."""
        changed = Project(self.folder, self.encoder, self.settings.home.name, **{**self.options, **options})
        self.options, self.settings = changed.options, changed.settings
        self.encoder = Encoder(self.settings.encoder, self.encoder.cache)

    def put(self, corpus, name, text, title="", metadata=None):
        """Add a document, or change it."""
        self.documents[corpus][name] = {"title": title, "text": text, "metadata": metadata or {}}
        self._write()

    def take(self, corpus, name):
        """Remove a document."""
        document = self.documents[corpus].pop(name)
        self._write()
        return document

    def _write(self):
        lines = [json.dumps({"id": name, **document}) for name, document in self.documents["file"].items()]
        sources = {self.folder / "file.jsonl": "\n".join(lines) + "\n"}
        sources |= {self.folder / f"folder/{name}.md": d["text"] for name, d in self.documents["folder"].items()}
        for path, text in sources.items():
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
        for path in (self.folder / "folder").iterdir():
            if path.stem not in self.documents["folder"]:
                path.unlink()

    def places(self):
        """Recipes up to the soft labels, in order, with each partition; topics follow from what was there before."""
        recipes = plan.graph(self.settings)
        for recipe in recipes.values():
            if recipe.group == "topics":
                continue
            if recipe.partitioned or recipe.key in UNPARTITIONED:
                for corpus in self.settings.corpora if recipe.partitioned else [None]:
                    yield recipe, corpus, recipes

    def run(self, at=None):
        """Bring everything up to date, as `mog run` does; interrupted at the n-th time of a named point.

        Returns what was recomputed, by asset, summed over corpora; None where it was interrupted.
        """
        reached = Counter()

        def interrupt(point):
            reached[point] += 1
            if at is not None and at == (point, reached[point]):
                raise Interrupted(point)

        recomputed = {}
        interrupt_with(interrupt)
        try:
            # What nobody needs goes at once where that is what is interrupted.
            with patch.object(publishing, "GRACE", 1e-9 if at is not None and at[0] == "swept" else publishing.GRACE):
                for recipe, corpus, recipes in self.places():
                    outcome = materialise(recipe, corpus, self.tools, recipes)
                    assert not any(check.name in outcome.faults for check in recipe.checks if check.blocking)
                    if outcome.built:
                        found = outcome.artefact.manifest.info["recomputed"]
                        recomputed.setdefault(recipe.key, Counter()).update(found)
        except Interrupted:
            return None
        finally:
            interrupt_with(None)
        return {key: dict(counts) for key, counts in recomputed.items()}

    def stored(self, key, corpus):
        return self.tools.store.read(key, corpus)

    def files(self, key, corpus):
        """Checksum of every file of an artefact by logical name."""
        return {name: entry["sha256"] for name, entry in self.stored(key, corpus).manifest.files.items()}

    def points(self):
        """Every point of every collection: payload, vector and words by id."""
        import qdrant_edge as edge

        found = {}
        for collection in (self.settings.home / "qdrant").glob("mog_*/"):
            shard = edge.EdgeShard.load(str(collection))
            request = edge.ScrollRequest(limit=10_000, with_payload=True, with_vector=True)
            records, rest = shard.scroll(request)
            assert rest is None
            shard.close()
            found[collection.name] = {
                str(r.id): (dict(r.payload), tuple(r.vector["dense"]), words_in(r.vector)) for r in records
            }
        return found

    def scores(self):
        """BM25 scores of all pieces and titles for a few questions, and what weighs their terms, by kind of text."""
        corpora, found = Corpora.open(self.tools.store.read, self.settings, list(self.settings.corpora)), []
        stored = corpora.statistics
        for terms in terms_of(["Where does the otter swim?", "What eats fish in the pond?"]):
            weights = stored.weights.of(terms)
            found.append({kind: of_terms.tolist() for kind, of_terms in weights.items()})
            for kind, postings in (("level_1", corpora.words), ("title", corpora.titles)):
                norms = saturation(postings.lengths, stored.mean_lengths[kind], 1.5, 0.75)
                found.append(postings.matches(terms).scores(weights[kind], norms).tolist())
        return [stored.texts, stored.mean_lengths, found]

    def passages(self):
        """What `fused` answers a few questions with."""
        questions = ["Where does the otter swim?", "What eats fish in the pond?", "newt"]
        tools = self.tools
        opened = Retrieval.open(tools, tools.store.read, list(self.settings.corpora), questions)
        ranked = opened.passages(parse("fused", self.settings), budget=Budget(200))
        return [getattr(ranked, field).tolist() for field in ("question", "document", "start", "end", "score")]


def words_in(vectors):
    """Words of a point: places and values."""
    words = vectors.get("words")
    return None if words is None else (tuple(words.indices), tuple(words.values))


def two_corpora(folder, encoder):
    """Two corpora of two documents, one question with evidence in each, and one without evidence."""
    rows = [
        {"id": "1", "question": "How does the heron fish?", "split": "dev"}
        | {"evidence": [{"corpus": "file", "doc": "a", "start": 0, "end": 45}]},
        {"id": "2", "question": "What does the otter eat?", "split": "dev"}
        | {"evidence": [{"corpus": "folder", "doc": "a.md", "start": 24, "end": 51}]},
        {"id": "3", "question": "Where are newts in winter?", "split": "dev", "answer": "Under stones."},
    ]
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    sets = {"ponds": {"path": "questions.jsonl", "corpora": ["file", "folder"], "test": ["dev"]}}
    project = Project(folder, encoder, question_sets=sets)
    for corpus, texts in (("file", [HERON, NEWT]), ("folder", [OTTER, HERON + NEWT])):
        for name, text in zip("ab", texts, strict=True):
            project.put(corpus, name, text, title=title_of(text))
    return project


def title_of(text):
    """An animal of a text, so that texts name documents, and other ones after an edit."""
    return next((animal for animal in ("newt", "otter", "heron") if animal in text.lower()), "")


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        yield Path(name)


words = st.sampled_from(["Otters swim. ", "The heron waits. ", "Newts!\n", "of the ", "Größe 東京 ", "x" * 70])
bodies = st.lists(words, min_size=1, max_size=6).map("".join).filter(str.strip)
corpora = st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.sampled_from(["", "Ponds"]), bodies), min_size=1)
