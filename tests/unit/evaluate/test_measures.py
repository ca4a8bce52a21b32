"""Measures against what they are by definition: sets of characters, plain loops."""

from __future__ import annotations

from itertools import chain, groupby
from math import log2

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from shared import examples

from mog_assets.evaluate.measures import CONTEXTS, TOKENS, evaluate, lower_is_better, measure_names, range_of
from mog_assets.questions.sets import Evidence, Question

METHODS = ("searching", "finding")
COLUMNS = ["question_set", "method", "question", "rank", "corpus", "doc", "start", "end", "tokens"]


def question(identity, *spans):
    return Question(identity, "?", "kind", "test", evidence=tuple(Evidence(*span) for span in spans))


# A span is (corpus, doc, start, end), a passage a list of (span, tokens). Both corpora have documents of the same ids.
documents = st.tuples(st.sampled_from("ab"), st.sampled_from("tuvwxyz"))
few = st.tuples(st.sampled_from("ab"), st.sampled_from("yz"))
# Rough offsets meet often, so that spans touch, and repeat or hold one another.
offsets = st.one_of(st.integers(0, 3000), st.integers(0, 6).map(lambda n: 500 * n))
lengths = st.one_of(st.integers(1, 1500), st.integers(1, 3).map(lambda n: 500 * n))
spans = st.tuples(st.one_of(documents, few), offsets, lengths).map(lambda s: (*s[0], s[1], s[1] + s[2]))
passages = st.lists(st.tuples(spans, st.integers(0, 700)), min_size=1, max_size=3)
gold_spans = st.lists(spans, min_size=1, max_size=4)


@st.composite
def cases(draw):
    """Evidence of a question, and the passages that each of two methods ranks for it."""
    gold = draw(gold_spans)
    if draw(st.booleans()):
        corpus, doc, _, end = gold[0]
        gold.append((corpus, doc, end, end + draw(lengths)))
    found = draw(st.lists(passages, max_size=11))
    # The other method ranks the evidence too, in two halves, among passages of which some come twice.
    halves = []
    for corpus, doc, start, end in gold:
        middle = draw(st.integers(start, end))
        for half in ((corpus, doc, start, middle), (corpus, doc, middle, end)):
            halves += [[(half, draw(st.integers(0, 700)))]] if half[2] < half[3] else []
    finding = draw(st.permutations([*halves, *found[:3], *found[:1]]))
    return gold, dict(zip(METHODS, (found, finding), strict=True))


def by_definition(gold, ranked, k):
    """Every measure, from sets of characters and plain loops."""
    names = sorted({span[:2] for span in chain(gold, *([span for span, _ in passage] for passage in ranked))})
    # Characters of all documents as whole numbers, documents far apart.
    place = {name: 100_000 * i for i, name in enumerate(names)}

    def characters(span):
        return range(place[span[:2]] + span[2], place[span[:2]] + span[3])

    wanted = set(chain(*map(characters, gold)))
    stream = list(chain(*(characters(span) for passage in ranked for span, _ in passage)))
    found = {f"ER@{c}": len(wanted & set(stream[:c])) / min(len(wanted), c) for c in CONTEXTS}
    found["ER"] = sum(found.values()) / len(CONTEXTS)
    top = set(chain(*(characters(span) for passage in ranked[:k] for span, _ in passage)))
    found[f"char_recall@{k}"] = len(wanted & top) / len(wanted)
    found[f"char_precision@{k}"] = len(wanted & top) / len(top) if top else 0.0
    found[f"char_iou@{k}"] = len(wanted & top) / len(wanted | top)

    relevant = {span[:2] for span in gold}
    order = list(dict.fromkeys(span[:2] for passage in ranked for span, _ in passage))
    gain = sum(1 / log2(i + 2) for i, name in enumerate(order[:10]) if name in relevant)
    found["nDCG@10"] = gain / sum(1 / log2(i + 2) for i in range(min(len(relevant), 10)))
    found["MRR"] = next((1 / (i + 1) for i, name in enumerate(order) if name in relevant), 0.0)
    found["Recall@10"] = len(relevant & set(order[:10])) / len(relevant)
    found[f"hit@{k}"] = float(any(span[:2] in relevant for passage in ranked[:k] for span, _ in passage))

    whole = [{at for _, at in run} for _, run in groupby(enumerate(sorted(wanted)), lambda pair: pair[1] - pair[0])]
    read, tokens, found["tokens_to_answer"] = set(), 0, TOKENS
    for passage in ranked:
        tokens += sum(count for _, count in passage)
        read |= set(chain(*(characters(span) for span, _ in passage)))
        if any(piece <= read for piece in whole):
            found["tokens_to_answer"] = min(max(tokens, 1), TOKENS)
            break
    return found


def table_of(asked, method_order, shuffle):
    """Runs of all cases, as a table whose passages stand in any order, the spans of each as they are read."""
    blocks = [
        [(question_set, method, identity, rank, *span, tokens) for span, tokens in passage]
        for (question_set, identity), (_, ranked) in asked.items()
        for method in method_order
        for rank, passage in enumerate(ranked[method], 1)
    ]
    shuffle.shuffle(blocks)
    return pd.DataFrame(list(chain(*blocks)), columns=COLUMNS)


# The contexts end inside the evidence, which is longer than any.
AT_THE_CUT = ([("a", "x", 0, 9000)], {m: [[(("a", "y", 0, 500), 1)], [(("a", "x", 0, 9000), 1)]] for m in METHODS})


@settings(max_examples=examples(20), deadline=None)
@given(
    asked=st.dictionaries(st.tuples(st.sampled_from(["one", "two"]), st.sampled_from(["p", "q"])), cases(), min_size=1),
    k=st.integers(1, 4),
    coded=st.booleans(),
    shuffle=st.randoms(use_true_random=False),
)
@example(asked={("one", "p"): AT_THE_CUT}, k=1, coded=True, shuffle=np.random.RandomState(0))
def test_measures_are_what_their_definitions_say(asked, k, coded, shuffle):
    # Ranked for, but not asked; and asked without evidence.
    stranger = {("one", "stranger"): cases_of_nobody(), ("two", "open"): cases_of_nobody()}
    runs = table_of(asked | stranger, METHODS, shuffle)
    if coded:
        runs = runs.astype({name: "category" for name in ("question_set", "method", "question", "corpus", "doc")})
    members = {
        name: [question(q, *gold) for (s, q), (gold, _) in asked.items() if s == name] for name in ("one", "two")
    }
    # Asked, but not ranked for.
    members["one"].append(question("silent", ("a", "x", 0, 10)))
    members["two"].append(question("open"))
    table = evaluate(runs, members, k).set_index(["question_set", "question", "method"])

    expected = asked | {("one", "silent"): ([("a", "x", 0, 10)], {method: [] for method in METHODS})}
    assert sorted(table.index) == sorted((*key, method) for key in expected for method in METHODS)
    for method in METHODS:
        for (question_set, identity), (gold, found) in expected.items():
            row = table.loc[(question_set, identity, method)]
            defined = by_definition(gold, found[method], k)
            assert sorted(defined) == sorted(measure_names(k))
            assert row[list(defined)].to_dict() == pytest.approx(defined, abs=1e-9, rel=0)
            assert row["answered"] == bool(found[method])


def cases_of_nobody():
    """Passages for a question that is not scored."""
    return [], {method: [[(("a", "x", 0, 100), 5)]] for method in METHODS}


def ranked_once(*found):
    """Runs of one method on question `q`: a passage per span, with its tokens."""
    rows = [("set", "m", "q", rank, *span, tokens) for rank, (span, tokens) in enumerate(found, 1)]
    return pd.DataFrame(rows, columns=COLUMNS)


def test_perfect_run_has_the_best_value_and_no_run_the_worst_of_every_measure():
    gold = [("c", "d", 100, 400), ("c", "e", 0, 200)]
    runs = ranked_once(*((span, 1) for span in gold))
    members = {"set": [question("q", *gold), question("silent", *gold)]}
    table = evaluate(runs, members, 2).set_index("question")
    assert range_of("tokens_to_answer") == (1, 2000)
    elsewhere = evaluate(ranked_once((("other", "d", 100, 400), 1)), members, 2)
    assert elsewhere["tokens_to_answer"].tolist() == [2000, 2000] and not elsewhere["ER"].any()
    described = ["question_set", "split", "evidence", "method", "document"]
    assert list(table.columns) == [*described, *measure_names(2), "answered"]
    for name in measure_names(2):
        worst, best = range_of(name)[:: -1 if lower_is_better(name) else 1]
        assert (table.loc["q", name], table.loc["silent", name]) == (best, worst)
