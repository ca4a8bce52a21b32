"""The mix of granularities against counting."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mog_assets.papers.level_search.searchers import LevelMatches
from mog_assets.papers.mix_of_granularity.mixing import candidates, emission_levels, emit, ranked
from mog_assets.papers.mix_of_granularity.ranker import LevelChunks
from mog_assets.text.chunks import Layout


@st.composite
def searches(draw):
    """A layout, what was retrieved of it by level and question, weights by question, a level by question."""
    levels, questions = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    counts = draw(st.lists(st.integers(1, 12), min_size=1, max_size=6))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    layout = Layout("", [str(i) for i in range(len(counts))], offsets, np.zeros((offsets[-1], 2), int))
    # Eighths are exact in floating point, so that ties are ties in any order of addition.
    eighths = st.integers(1, 12).map(lambda n: n / 8)
    hits = []
    for level in range(1, levels + 1):
        rows = []
        for question in range(questions):
            chosen = draw(st.lists(st.integers(0, layout.count(level) - 1), unique=True, max_size=5))
            scores = sorted((draw(eighths) for _ in chosen), reverse=True)
            rows += [(question, chunk, score) for chunk, score in zip(chosen, scores, strict=True)]
        columns = np.array(rows, float).reshape(-1, 3).T
        hits.append(LevelMatches(columns[0].astype(int), columns[1].astype(int), columns[2]))
    weights = np.array([[draw(st.integers(0, 8)) / 8 for _ in range(levels)] for _ in range(questions)])
    return layout, hits, weights, np.array([draw(st.integers(0, levels)) for _ in range(questions)])


def container(layout, finest, level):
    """The chunk of a level that contains a level-1 chunk, by counting."""
    document = int(np.searchsorted(layout.offsets, finest, side="right")) - 1
    before = sum(-(-int(n) // 2 ** (level - 1)) for n in np.diff(layout.offsets)[:document])
    return before + int(finest - layout.offsets[document]) // 2 ** (level - 1)


@given(searches())
@settings(deadline=None)
def test_mix_equals_brute_force(search):
    layout, hits, weights, levels = search
    expected = []
    for question, level in enumerate(levels.tolist()):
        scored = []
        for finest in range(layout.count(1)):
            total, retrieved = 0.0, False
            for g, found in enumerate(hits, 1):
                for asked, chunk, score in zip(found.question, found.chunk, found.score, strict=True):
                    if asked == question and chunk == container(layout, finest, g):
                        total, retrieved = total + weights[question, g - 1] * score, True
            if retrieved and level:
                scored.append((-total, finest))
        emitted = {}
        for total, finest in sorted(scored):
            emitted.setdefault(container(layout, finest, level), -total)
        expected += [(question, chunk, score, level) for chunk, score in emitted.items()]
    chunks = LevelChunks(layout, len(hits), lambda level: np.zeros(1, np.int64))
    found = candidates(hits, chunks)
    mixed, level_of = emit(found, *ranked(found, weights), levels, chunks)
    columns = (mixed.question, mixed.chunk, mixed.score, level_of)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected


def test_emitted_level_has_the_greatest_weight_the_finer_of_equals():
    weights = [[0.1, 0.7, 0.2], [0.2, 0.4, 0.4], [0.2, 0.2, 0.2], [0, 0, 0]]
    assert emission_levels(np.array(weights)).tolist() == [2, 2, 1, 0]
