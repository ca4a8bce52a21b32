"""A question set ranked by every method, where rankings that no change touches are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mog_assets import tensors
from mog_assets.evaluation import reach
from mog_assets.evaluation.reach import FAMILIES, Family, Reach, family_of
from mog_assets.evaluation.runs import RUNS, arranged, ranked, table_of
from mog_assets.evaluation.shares import part_names, parts
from mog_assets.graph.changes import Hops, Nodes
from mog_assets.questions.sets import Question, asked_of
from mog_assets.ranking.retrieve import Retrieval, expert_names
from mog_assets.recipe import Work
from mog_assets.resources.store import Artefact, digest
from mog_assets.retrieval.changes import Change, Chunks, Documents, Texts
from mog_assets.retrieval.corpora import Encode
from mog_assets.retrieval.methods import Method

# If a greater share of texts is new, nearly every question finds one of them: all are ranked again.
_MOST = 0.2
# What the names of arrays with shares begin with.
_SHARES = "shares of "


@dataclass
class RankedSet:
    """A question set with its rankings.

    Attributes:
        work: Of the asset `runs`.
        name: Of the question set.
        questions: Those that are measured, at least one.
        methods: All methods.
        hashes: Of the documents of each corpus, see `statistics.document_hashes`.
        told: What decides the content of every file.
        made: How many rankings were made and not kept.
    """

    work: Work
    name: str
    questions: Sequence[Question]
    methods: Sequence[Method]
    hashes: Mapping[str, np.ndarray]
    told: Sequence[object]
    made: int = 0

    @cached_property
    def retrieval(self) -> Retrieval:
        """Retrieval for all questions. All vectors are compared: an index may miss some."""
        corpora = self.work.settings.question_sets[self.name].corpora
        found = Retrieval.open(self.work.tools, self.work.input, corpora, [q.question for q in self.questions])
        known: dict[str, np.ndarray] = {}
        if self._before is not None and "vectors" in self._before.arrays:
            texts, vectors = {asked_of(q): q.question for q in self.questions}, self._before.arrays["vectors"]
            known = {texts[own]: vectors[row] for own, row in self._before.rows.items() if own in texts}
        return replace(found, encode=_remembering(known, found.encode), vector_store=None)

    @cached_property
    def weights(self) -> dict[str, np.ndarray]:
        """Weights by kind of method, if it does not compute its own: float array of shape (questions, levels)."""
        if not any(method.kind == "oracle-paper" for method in self.methods):
            return {}
        table = pd.read_parquet(self.work.input("soft_labels").path("labels.parquet"))
        here = table[table["question_set"] == self.name]
        by_id = dict(zip(here["question"], here["label"], strict=True))
        none = np.zeros(self.work.settings.levels)
        return {"oracle-paper": np.stack([np.asarray(by_id.get(q.id, none), float) for q in self.questions])}

    @property
    def written(self) -> bool:
        """Whether all its files are there, from a run that was interrupted."""
        return all(there for _, there in self._files.values())

    def tables(self) -> Iterator[pa.Table]:
        """The run of every method, in the order of the questions."""
        for method in self.methods:
            group = next((g for g in self._groups.values() if method in g.methods), None)
            if group is None:
                asked, missing, tables = self.retrieval, np.arange(len(self.questions)), []
            else:
                asked, missing, tables = group.asked, group.missing, self._kept_rows(method, group)
            if len(missing):
                questions = [self.questions[i] for i in missing.tolist()]
                weights = self._weights_of(missing)
                found = ranked(questions, method, asked, weights, self.work.settings.k)
                tables.append(table_of(self.name, questions, method, found, asked))
                if group is not None:
                    count = np.zeros(len(missing), np.int64)
                    np.maximum.at(count, found.question, found.rank + 1)
                    group.passages[method.name] = count
                if method.topics:
                    back = asked.fell_back(method, self.work.settings.k, weights.get(method.kind))
                    self.fell_back[method.name][missing] = back
                if method.name in self._weighing:
                    kind, settings = self._weighing[method.name], self.work.settings
                    own = asked.shares(kind)
                    assert own is not None
                    self.shares[method.name][missing] = parts(own, expert_names(settings, kind), settings.levels)
                self.made += len(missing)
            yield arranged(tables, self.questions)

    @cached_property
    def fell_back(self) -> dict[str, np.ndarray]:
        """By method within topics, the questions that got passages of all topics: bool of shape (questions,)."""
        names = [method.name for method in self.methods if method.topics]
        return self._filled({name: np.zeros(len(self.questions), bool) for name in names})

    @cached_property
    def shares(self) -> dict[str, np.ndarray]:
        """Result of `shares.parts` by method, of those that weigh levels and retrievers."""
        shape = len(self.questions), len(part_names(self.work.settings.levels))
        found = self._filled({f"{_SHARES}{name}": np.zeros(shape, np.float32) for name in self._weighing})
        return {name.removeprefix(_SHARES): own for name, own in found.items()}

    def write(self) -> None:
        """Write what is needed to keep rankings next time; call it when `tables` has ended."""
        paths = {name: path for name, (path, _) in self._files.items()}
        for family, group in self._groups.items():
            parts = [group.kept] if group.kept is not None else []
            if len(group.missing):
                digests, weights = self._asked(family), self._weights_of(group.missing)
                asked = [digests[i] for i in group.missing.tolist()]
                parts.append(reach.gathered(family, asked, group.asked, group.methods, group.passages, weights))
            whole = reach.joined(parts, np.concatenate([group.kept_at, group.missing]))
            numbers, texts = (paths[f"{family}_{self.name}.{kind}"] for kind in ("safetensors", "parquet"))
            with self.work.writing(numbers) as first, self.work.writing(texts) as second:
                whole.write(first, second)
        arrays = {name: own.astype(np.uint8) for name, own in self.fell_back.items()}
        arrays |= {f"{_SHARES}{name}": own for name, own in self.shares.items()}
        if self._uses_vectors:
            arrays["vectors"] = np.asarray(self.retrieval.vectors, np.float32)
        facts = {"asked": [asked_of(q) for q in self.questions]}
        with self.work.writing(paths[f"questions_{self.name}.safetensors"]) as path:
            path.write_bytes(tensors.encode(arrays, facts))
        with self.work.writing(paths[f"documents_{self.name}.safetensors"]) as path:
            self._documents.write(path)
        if "rankings" in self._families:
            with self.work.writing(paths[f"named_{self.name}.safetensors"]) as path:
                self._named.write(path)
        if "graph" in self._families:
            with self.work.writing(paths[f"nodes_{self.name}.safetensors"]) as path:
                self._nodes.write(path)
        # The next question set needs the memory.
        for name in ("_groups", "_rows", "_nodes"):
            vars(self).pop(name, None)

    # What is there today

    @cached_property
    def _weighing(self) -> dict[str, str]:
        """By method that weighs levels and retrievers, the kind of its ranking."""
        found = {method.name: self.retrieval.resolved(method) for method in self.methods}
        # The trees of `mix` have no weights.
        return {name: own.kind for name, own in found.items() if own.ranking and own.kind != "mix"}

    @property
    def _uses_vectors(self) -> bool:
        return any(m.ranking or m.topics or m.routed or m.retriever in ("dense", "hybrid") for m in self.methods)

    @cached_property
    def _families(self) -> dict[Family, list[Method]]:
        across = self.work.settings.graph.across
        found = {family: [m for m in self.methods if family_of(m, across) == family] for family in FAMILIES}
        return {family: own for family, own in found.items() if own}

    @cached_property
    def _files(self) -> dict[str, tuple[Path, bool]]:
        names = [f"questions_{self.name}.safetensors", f"documents_{self.name}.safetensors"]
        names += [f"named_{self.name}.safetensors"] if "rankings" in self._families else []
        names += [f"nodes_{self.name}.safetensors"] if "graph" in self._families else []
        names += [f"{family}_{self.name}.{kind}" for family in self._families for kind in ("safetensors", "parquet")]
        return {name: self.work.file(name, self.told) for name in names}

    @cached_property
    def _documents(self) -> Documents:
        return Documents.of(self.retrieval.corpora, self.hashes)

    @cached_property
    def _named(self) -> Documents:
        """The documents with what they name."""
        return self.retrieval.documents(self.hashes)

    @cached_property
    def _nodes(self) -> Nodes:
        return Nodes.of(self.retrieval.neighbourhoods, self._documents.hashes)

    def _asked(self, family: Family) -> list[str]:
        """What is known of each question, with its soft label if methods use it."""
        found = [asked_of(question) for question in self.questions]
        labels = self.weights.get("oracle-paper") if family == "levels" else None
        if labels is None:
            return found
        return [digest(own, label.tolist())[:16] for own, label in zip(found, labels, strict=True)]

    def _weights_of(self, questions: np.ndarray) -> dict[str, np.ndarray]:
        return {kind: own[questions] for kind, own in self.weights.items()}

    # What was there before

    @cached_property
    def _previous(self) -> Artefact | None:
        previous = self.work.comparable
        return previous if previous is not None and set(self._files) <= set(previous.manifest.files) else None

    @cached_property
    def _before(self) -> _Before | None:
        if self._previous is None:
            return None
        arrays, facts = tensors.decode(self._previous.path(f"questions_{self.name}.safetensors").read_bytes())
        return _Before(arrays, {own: row for row, own in enumerate(facts["asked"])})

    def _filled(self, found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Arrays with a row for each question, those that were there before filled in."""
        if self.written:
            arrays, _ = tensors.decode(self._files[f"questions_{self.name}.safetensors"][0].read_bytes())
            return {name: arrays[name].astype(own.dtype) for name, own in found.items()}
        before = self._before or _Before({}, {})
        for i, question in enumerate(self.questions):
            row = before.rows.get(asked_of(question))
            for name, own in found.items() if row is not None else ():
                known = before.arrays.get(name)
                # Of another number of levels, nothing is kept.
                if known is not None and known.shape[1:] == own.shape[1:]:
                    own[i] = known[row]
        return found

    @cached_property
    def _groups(self) -> dict[Family, _Group]:
        return {family: self._group(family, methods) for family, methods in self._families.items()}

    def _group(self, family: Family, methods: Sequence[Method]) -> _Group:
        everything, none = np.arange(len(self.questions)), np.zeros(0, np.int64)
        previous = self._previous
        if previous is None or previous.manifest.info["basis"][family] != self.work.info["basis"][family]:
            return _Group(methods, None, none, everything, self.retrieval)
        texts = self._texts(family, previous)
        if len(texts.fresh(1)) > _MOST * max(self._count(family), 1):
            return _Group(methods, None, none, everything, self.retrieval)
        paths = (previous.path(f"{family}_{self.name}.{kind}") for kind in ("safetensors", "parquet"))
        held = Reach.read(*paths)
        at = {own: i for i, own in enumerate(self._asked(family))}
        held = held.of(np.array([i for i, own in enumerate(held.digests) if own in at], np.int64))
        held, lost = held.moved(texts)
        positions = np.array([at[own] for own in held.digests], np.int64)
        asked = self.retrieval.again([self.questions[i].question for i in positions.tolist()])
        stays = np.flatnonzero(~(held.reached(asked, texts, family, lost)))
        missing = np.setdiff1d(everything, positions[stays])
        again = self.retrieval
        if len(missing) < len(everything):
            again = again.again([self.questions[i].question for i in missing.tolist()])
        return _Group(methods, held.of(stays), positions[stays], missing, again)

    def _count(self, family: Family) -> int:
        """Texts of the finest granularity."""
        return len(self._nodes.hops[0]) if family == "graph" else int(self._documents.pieces.sum())

    def _texts(self, family: Family, previous: Artefact) -> Texts:
        if family == "graph":
            before = Nodes.read(previous.path(f"nodes_{self.name}.safetensors"))
            return Hops(self.retrieval.neighbourhoods, before, self._nodes)
        what, now = ("named", self._named) if family == "rankings" else ("documents", self._documents)
        before_it = Documents.read(previous.path(f"{what}_{self.name}.safetensors"))
        return Chunks(self.retrieval.corpora, Change(before_it, now))

    def _kept_rows(self, method: Method, group: _Group) -> list[pa.Table]:
        if not len(group.kept_at) or method.name not in self._rows:
            return []
        table = self._rows[method.name]
        kept = pa.array([self.questions[i].id for i in group.kept_at.tolist()], pa.string())
        return [table.filter(pc.is_in(table["question"], kept))]

    @cached_property
    def _rows(self) -> dict[str, pa.Table]:
        """The rows that were there before, by method."""
        if self._previous is None:
            return {}
        table = pq.read_table(self._previous.path(RUNS), filters=[("question_set", "=", self.name)])
        if not len(table):
            return {}
        methods = table["method"].unify_dictionaries().combine_chunks()
        # Rows of a method lie together.
        runs = pc.run_end_encode(methods.indices)
        ends, names = runs.run_ends.to_pylist(), methods.dictionary.take(runs.values).to_pylist()
        return {name: table.slice(a, b - a) for name, a, b in zip(names, [0, *ends[:-1]], ends, strict=True)}


@dataclass(frozen=True)
class _Before:
    """What was known of the questions.

    Attributes:
        arrays: Their vectors, and by method which of them got passages of all topics.
        rows: Row of each, by the digest of all that is known of it.
    """

    arrays: Mapping[str, np.ndarray]
    rows: Mapping[str, int]


@dataclass(frozen=True)
class _Group:
    """The rankings of a family of methods.

    Attributes:
        methods: Of the family.
        kept: What the rankings that are kept depend on; None if none are.
        kept_at: Positions of their questions.
        missing: Positions of the others, ascending.
        asked: Retrieval for those.
        passages: See `reach.gathered`; filled while they are ranked.
    """

    methods: Sequence[Method]
    kept: Reach | None
    kept_at: np.ndarray
    missing: np.ndarray
    asked: Retrieval
    passages: dict[str, np.ndarray] = field(default_factory=dict)


def _remembering(known: dict[str, np.ndarray], encode: Encode) -> Encode:
    """Encode only texts whose vectors are not known, and remember them."""

    def encoded(texts: Sequence[str]) -> np.ndarray:
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if missing:
            known.update(zip(missing, np.asarray(encode(missing), np.float32), strict=True))
        return np.stack([known[text] for text in texts])

    return encoded
