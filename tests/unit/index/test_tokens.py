"""Term counts of all levels, whatever the chunker and the text."""

import re
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, example, given, settings
from hypothesis import strategies as st

from mog_assets.documents.documents import make_document, write_documents
from mog_assets.index.layouts import bucket_layout
from mog_assets.index.tokens import assemble, count_bucket, level_counts
from mog_assets.text.chunkers import CHUNKERS, split_bucket, unit_chars
from mog_assets.text.cuts import units
from mog_assets.text.languages import DEFAULT
from mog_assets.text.terms import located

LEVELS = 4
WORDS = st.sampled_from(
    [
        "otter ",
        "Otters",
        "swimming. ",
        "ΟΔΟΣ",
        "ΟΔΟΣ'ΑΣ. ",
        "İstanbul ",
        "東京。",
        "東京タワーに上る",
        "大",
        "iPhone手机 ",
        "서울에서 ",
        "น้ำตก",
        "ที่ dawn",
        "ភ្នំពេញ",
        "手กา",
        "don't",
        "\n\n",
        "x_1" * 9,
        "of the ",
        "Größe",
    ]
)
TEXTS = st.lists(
    WORDS | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs", "Cn"]), max_size=9), max_size=12
)


def counted(text, language):
    """Where the terms of a text start, and the terms."""
    (starts,), (row,), terms = located([text], language)
    return [(start, terms[i]) for start, i in zip(starts, row, strict=True)]


# The learned chunker ends chunks where units end, as the semantic one does, and takes a trained model.
@pytest.mark.parametrize("chunker", sorted(CHUNKERS.keys() - {"learned"}))
@given(TEXTS.map("".join), st.integers(1, 40))
@example("Otters swim at dusk. " * 3, 7)
@example("ΑΣ'Α ΑΣ'Α", 3)
@example("iPhone手机在北京。", 1)
@example("น้ำตกสูงมาก", 1)
@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_words_are_counted_on_every_level_in_the_chunk_that_they_start_in(chunker, text, finest_chars):
    assume(text.strip())
    with tempfile.TemporaryDirectory() as folder:
        documents, spans, terms, vectors = (Path(folder) / name for name in ("documents", "spans", "terms", "v.npy"))
        document = make_document("a", "Otters'", text, {}, {})
        write_documents([document], documents)
        takes = CHUNKERS[chunker].sentence_vectors
        if takes:
            rng = np.random.default_rng(0)
            np.save(
                vectors, rng.normal(size=(len(units(document.text, unit_chars(finest_chars))), 3)).astype(np.float16)
            )
        split_bucket(str(documents), str(spans), chunker, finest_chars, vectors=str(vectors) if takes else None)
        count_bucket(str(documents), str(spans), str(terms))
        layout = bucket_layout(documents, spans)
        found = assemble([terms], [layout])
    language = document.language or DEFAULT
    title = Counter(term for _, term in counted(document.title, language))
    words = counted(document.text, language)
    # Runs without blanks and marks: what a cut may divide is inside one.
    whole = [match.span() for match in re.finditer(r"\S+", document.text)]
    for level in range(1, LEVELS + 1):
        rows = level_counts(found["chunks"], found["titles"], layout, level).tocsr()
        _, starts, stops = layout.chunk_spans(np.arange(layout.count(level)), level)
        for row, start, end in zip(rows, starts.tolist(), stops.tolist(), strict=True):
            ours = Counter({found["terms"][term]: int(n) for term, n in zip(row.indices, row.data, strict=True)})
            assert ours == title + Counter(term for offset, term in words if start <= offset < end)
            if not any(first < cut < last for first, last in whole for cut in (start, end)):
                assert ours == title + Counter(term for _, term in counted(document.text[start:end], language))
            else:
                event("cut inside a word")
