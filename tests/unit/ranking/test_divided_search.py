"""Parts of the corpora that are searched by themselves give what one search of all gives, to the bit."""

import pickle
from dataclasses import fields

import numpy as np
import pytest
import yaml
from shared import copy_folder, run_alone

from mog_assets import config
from mog_assets.ranking import section_search
from mog_assets.ranking.rankings import Rankings
from mog_assets.ranking.retrieve import Retrieval
from mog_assets.ranking.searchers import Searchers, nearest, values
from mog_assets.retrieval import neighbours, piece_counts
from mog_assets.retrieval.divided import divided
from mog_assets.tools import Tools

QUESTIONS = ["When should garlic be planted and harvested?", "sky sky", "zzqx", "What is a spectral class?", "the of"]


@pytest.fixture(scope="module")
def settings(sample_project, tmp_path_factory):
    """Of a copy of the samples with several shards in each corpus, and graphs."""
    folder = copy_folder(sample_project.folder, tmp_path_factory.mktemp("divided") / "copy")
    more = {"ranking": {"candidates": "indexed"}, "shard_chunks": 8}
    stored = yaml.safe_load((folder / "mog.yaml").read_text(encoding="utf-8")) | more
    (folder / "mog.yaml").write_text(yaml.safe_dump(stored, sort_keys=False), encoding="utf-8")
    settings = config.load(folder / "mog.yaml")
    assert not run_alone(settings).failures
    return settings


def call(target, jobs):
    """Calls that go through what other processes would send."""
    function = {"nearest": nearest, "values": values}[target.rpartition(":")[2]]
    return {part: pickle.loads(pickle.dumps(function(**pickle.loads(pickle.dumps(job))))) for part, job in jobs.items()}  # noqa: S301


def opened(settings, parts=0, questions=QUESTIONS):
    tools = Tools(settings)
    retrieval = Retrieval.open(tools, tools.store.read, list(settings.corpora), questions, keep=True)
    corpora = retrieval.corpora
    searching = Searchers(call, tools.store.home, corpora, parts) if parts else None
    return Retrieval(**{f.name: getattr(retrieval, f.name) for f in fields(retrieval)} | {"searching": searching})


def found(retrieval):
    candidates = retrieval.once(Rankings).inputs.candidates
    return {field.name: getattr(candidates, field.name) for field in fields(candidates)}


def test_parts_hold_every_piece_once_and_are_about_as_large(settings):
    corpora = opened(settings).corpora
    assert len(corpora.shard_owners) > 12
    for most in (1, 2, 3, 5, 100):
        parts = divided(corpora.read, corpora.names, most)
        assert 1 <= len(parts) <= most
        for kind in ("pieces", "documents"):
            ends = [getattr(part, kind) for part in parts]
            whole = corpora.layout.count(1) if kind == "pieces" else len(corpora.layout.documents)
            assert ends[0][0] == 0 and ends[-1][1] == whole
            assert [end for _, end in ends[:-1]] == [first for first, _ in ends[1:]]
        if most <= 5:
            sizes = [last - first for first, last in (part.pieces for part in parts)]
            assert len(parts) == most and max(sizes) < 2.5 * min(sizes)


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_however_many_parts_there_are_the_candidates_are_those_of_one_search(settings, parts, monkeypatch):
    # Few of the samples' pieces are near, and their documents have several sections.
    monkeypatch.setattr(section_search, "NEAREST", 5)
    monkeypatch.setattr(piece_counts, "_PIECES", 1)
    monkeypatch.setattr(neighbours, "FEW", 0)
    whole, divided_ones = found(opened(settings)), found(opened(settings, parts))
    assert len(whole["piece"]) > 20
    for name, array in whole.items():
        assert np.array_equal(array, divided_ones[name]), name


def test_a_filter_goes_into_the_search_of_every_part(settings, monkeypatch):
    monkeypatch.setattr(section_search, "NEAREST", 5)
    whole, parts = opened(settings), opened(settings, 3)
    count = len(whole.corpora.layout.documents)
    for allowed in (np.arange(count) % 3 == 1, np.arange(count) == count - 1, np.zeros(count, bool)):
        alone, together = found(whole.among(allowed)), found(parts.among(allowed))
        assert allowed[whole.corpora.layout.document_of[alone["piece"]]].all()
        assert len(alone["piece"]) or not allowed.any()
        for name, array in alone.items():
            assert np.array_equal(array, together[name]), name


def test_questions_together_have_the_candidates_of_each_alone(settings):
    together = found(opened(settings, 2))
    for number, question in enumerate(QUESTIONS):
        alone = found(opened(settings, 2, [question]))
        assert np.array_equal(alone["scores"], together["scores"][together["question"] == number])
