"""Term counts of all levels, whatever the chunker and the text."""

import re
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, example, given, settings
from hypothesis import strategies as st

from mog_assets.chunking.chunkers import CHUNKERS, unit_chars
from mog_assets.chunking.chunks import split_bucket
from mog_assets.chunking.layouts import bucket_layout
from mog_assets.chunking.sentences import units
from mog_assets.corpus.documents import make_document, write_documents
from mog_assets.retrieval.tokens import assemble, count_bucket, level_counts, query_terms, tokenise

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
        "don't",
        "\n\n",
        "x_1" * 9,
        "of the ",
        "Größe",
    ]
)
TEXTS = st.lists(
    WORDS | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9), max_size=12
)


def terms_of(texts):
    """Terms of each text with their numbers."""
    ids, terms = tokenise(texts)
    return [Counter(terms[i] for i in row) for row in ids]


# The learned chunker ends chunks where units end, as the semantic one does, and takes a trained model.
@pytest.mark.parametrize("chunker", sorted(CHUNKERS.keys() - {"learned"}))
@given(TEXTS.map("".join), st.integers(1, 40))
@example("Otters swim at dusk. " * 3, 7)
@example("ΑΣ'Α ΑΣ'Α", 3)
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
    words = [(match.start(), match.group()) for match in re.finditer(r"\w+", document.text)]
    title, *counted = terms_of([document.title, *(word for _, word in words)])
    for level in range(1, LEVELS + 1):
        rows = level_counts(found["chunks"], found["titles"], layout, level).tocsr()
        _, starts, ends = layout.chunk_spans(np.arange(layout.count(level)), level)
        whole = terms_of(
            [f"{document.title}\n{document.text[start:end]}" for start, end in zip(starts, ends, strict=True)]
        )
        for row, start, end, literal in zip(rows, starts, ends, whole, strict=True):
            ours = Counter({found["terms"][term]: int(n) for term, n in zip(row.indices, row.data, strict=True)})
            expected = title.copy()
            for (offset, _), own in zip(words, counted, strict=True):
                expected += own if start <= offset < end else Counter()
            assert ours == expected
            if not any(offset < cut < offset + len(word) for offset, word in words for cut in (start, end)):
                assert ours == literal
            else:
                event("cut inside a word")


def test_capital_and_small_sigmas_are_the_same_letter():
    assert query_terms(["ΟΔΟΣ οδος οδοσ ΟΔΟΣ'ΑΣ"]) == [["οδοσ"] * 4 + ["ασ"]]
