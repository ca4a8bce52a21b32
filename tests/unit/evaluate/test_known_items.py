"""What rankings are asked for known items with, and what follows from it."""

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from mog_assets.build.tools import Tools
from mog_assets.evaluate.choice import choose
from mog_assets.evaluate.known_items import FORMS, ITEMS, LEAST, MOST, drawn_items, losing, standing, summary
from mog_assets.search.methods import parse
from mog_assets.search.retrieval import Retrieval
from mog_assets.text.terms import terms_of


@pytest.fixture(scope="module")
def opened(sample_project):
    tools = Tools(sample_project.settings)
    return Retrieval.open(tools, tools.store.read, list(sample_project.settings.corpora))


def test_items_are_words_numbers_and_titles_that_one_text_has(opened):
    corpora, items = opened.corpora, drawn_items(opened.corpora)
    texts = corpora.texts(range(len(corpora.layout.documents)))
    pieces_with = Counter()
    for piece, (document, (start, end)) in enumerate(
        zip(corpora.layout.document_of.tolist(), corpora.layout.spans.tolist(), strict=True)
    ):
        title, text = texts[document]
        pieces_with.update(set(terms_of([f"{title} {text[start:end]}"])[0]))
        for item in items:
            if item.piece == piece:
                assert item.document == document and item.text in text[start:end]
    kinds = Counter(item.kind for item in items)
    assert kinds["word"] == MOST and kinds["title"] > 5 and max(kinds.values()) <= MOST
    assert all(any(map(str.isdigit, item.text)) for item in items if item.kind == "number")
    for item in items:
        if item.kind == "title":
            assert item.text == texts[item.document][0]
        else:
            assert pieces_with[terms_of([item.text])[0][0]] == 1, item


def test_an_item_is_first_or_near_as_the_ranking_has_it(opened):
    items = drawn_items(opened.corpora)[:20]
    table = standing(opened, items, ["fused"])
    assert len(table) == len(items) * len(FORMS) * 2 and (table["near"] | ~table["first"]).all()
    for form, template in FORMS.items():
        again = opened.with_queries([template.format(item.text) for item in items])
        question, piece, _ = again.by_score(parse("fused", opened.index.settings))
        best = piece[np.searchsorted(question, np.arange(len(items)))]
        own = table[(table["form"] == form) & (table["ranking"] == "fused")]
        assert own["first"].tolist() == (best == [item.piece for item in items]).tolist()


def table_of(**near):
    """Forty words of as many documents, and whether each ranking finds them."""
    parts = [
        pd.DataFrame(
            {"form": "alone", "kind": "word", "text": [f"w{i}" for i in range(40)], "document": range(40)}
        ).assign(ranking=name.replace("_", "-"), first=own, near=own)
        for name, own in near.items()
    ]
    return pd.concat(parts, ignore_index=True)


def test_a_ranking_that_finds_significantly_fewer_items_than_bm25_is_not_chosen():
    every, few, nearly = np.ones(40, bool), np.arange(40) < 25, np.arange(40) < 39
    rows = summary(table_of(fixed_1=every, fused=nearly, mix=few), 0)
    assert [row["in 4,000 characters"] for row in rows] == [1, 39 / 40, 25 / 40]
    assert rows[0]["ranking"] == LEAST and rows[0]["p"] is None
    assert losing(rows) == ["mix"] and losing(summary(table_of(fixed_1=few, mix=every), 0)) == []
    documents, base = [f"d{i}" for i in range(60)], np.random.default_rng(0).random(60) / 2
    recalls = {"fused": base, "mog": base + 0.1, "mix": base + 0.3}
    assert choose(recalls, ("mog", "mix"), documents, 0).method == "mix"
    chosen = choose(recalls, ("mog", "mix"), documents, 0, losing=["mix"])
    assert chosen.method == "mog" and "`mix`, ER 0.5" in chosen.why
    assert chosen.why.endswith(", finds fewer known items than BM25")
    neither = choose(recalls, ("mog", "mix"), documents, 0, losing=["mix", "mog"])
    assert neither.method == "fused" and "no other ranking" not in neither.why and "find fewer" in neither.why


@pytest.mark.whole
def test_a_run_asks_every_ranking_that_auto_may_stand_for_and_shows_what_they_found(sample_project):
    stored = Tools(sample_project.settings).store.read("known_items")
    table = pd.read_parquet(stored.path(ITEMS))
    assert set(table["ranking"]) == {LEAST, "fused", "tuned", "mog", "mix"}
    rows = stored.manifest.info["rows"]
    assert len(rows) == 10 and losing(rows) == []
    near = {(row["asked"], row["ranking"]): row["in 4,000 characters"] for row in rows}
    assert all(near["alone", name] >= near["alone", LEAST] - 0.02 for name in ("fused", "tuned", "mog", "mix"))
    (shown,) = (text for title, text in stored.shown().items() if title.startswith("words, numbers"))
    assert "| in a sentence | mix |" in shown
    assert json.loads(json.dumps(rows)) == rows
