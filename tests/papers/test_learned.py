"""The learned chunker: what training makes of questions, what it takes from documents, and what a new one rebuilds."""

import json

import numpy as np
import pytest

from mog_assets.build import plan
from mog_assets.papers.learned_chunking import training
from mog_assets.papers.learned_chunking.articles import ArticleSource, encode_articles, packed, within
from mog_assets.papers.learned_chunking.articles import sources as usable_sources
from mog_assets.papers.learned_chunking.learned import (
    Shape,
    costs,
    network,
    opened,
    penalty_for,
    scores,
    spans_of,
    stored,
)
from mog_assets.papers.learned_chunking.settings import ChunkerTraining
from mog_assets.papers.learned_chunking.tokens_to_answer import chunk_costs, tokens_to_answer
from mog_assets.questions.sets import Evidence, Question
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EncoderSettings
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import Store
from mog_assets.serve import project as serving
from mog_assets.text.chunkers import paragraphs
from mog_assets.text.cuts import WINDOW, candidates, least, unit_chars, units

FINEST = 120
QUICK = ChunkerTraining(width=16, layers=1, epochs=3, patience=3, batch_size=16)
# Facts that are asked for stand in every third sentence.
SUBJECTS = ("The heron", "A newt", "The otter", "An eel", "The pike", "A toad")
PLACES = ("the mill pond", "a ditch", "the upper lake", "a spring", "the weir", "an old well")


def article_text(number):
    lines = []
    for i, subject in enumerate(SUBJECTS):
        place = PLACES[(i + number) % len(PLACES)]
        lines.append(f"{subject} of valley {number} was counted {10 * number + i} times at {place}.")
        lines.append("People there speak of many other things in the evening.")
        lines.append("Nobody knows for how long it has been so, nor does it matter.")
        if i % 2:
            lines[-1] += "\n\n"
    return " ".join(lines).replace("\n\n ", "\n\n")


def sources(count=6):
    found = []
    for number in range(count):
        text = article_text(number)
        spans, asked = [], []
        for i, subject in enumerate(SUBJECTS):
            start = text.index(f"{10 * number + i} times")
            spans.append((start, start + len(f"{10 * number + i} times")))
            asked.append(f"How often was {subject.lower()} of valley {number} counted?")
        found.append(ArticleSource(f"valleys/{number}", "", text, asked, np.array(spans)))
    return found


@pytest.fixture(scope="module")
def encode(tmp_path_factory):
    return Encoder(EncoderSettings(), tmp_path_factory.mktemp("vectors")).encode


@pytest.fixture(scope="module")
def articles(encode):
    return encode_articles(sources(), unit_chars(FINEST), encode)


HELD_OUT = np.array([False, False, True, False, False, True])


@pytest.fixture(scope="module")
def trained(articles):
    return training.train(articles, HELD_OUT, FINEST, QUICK, seed=1)


def cut(article, scorer, model):
    return spans_of(article.text, FINEST, article.vectors, scorer, model)


def saved(folder, scorer):
    path = folder / "chunker.safetensors"
    path.write_bytes(stored(scorer))
    return path


# The cut of a text


def every_cut(n):
    """All ways to cut n units into runs of at most WINDOW."""
    if n == 0:
        return [[]]
    return [[*before, n] for last in range(1, min(n, WINDOW) + 1) for before in every_cut(n - last)]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("penalty", [-0.4, 0.0, 0.7])
def test_the_cut_that_is_taken_costs_least_of_all(seed, penalty):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    cost = np.where(np.arange(WINDOW) < n - np.arange(n)[:, None], rng.random((n, WINDOW)), np.inf)

    def total(taken):
        return sum(penalty + cost[start, end - start - 1] for start, end in zip([0, *taken], taken, strict=False))

    assert total(least(cost, penalty)) == pytest.approx(min(map(total, every_cut(n))))


@pytest.mark.full
def test_a_penalty_gives_chunks_of_the_length_that_is_asked_for(articles, trained):
    model = network(Shape(**trained.scorer.facts["shape"]))
    held = [costs(scores(model, a.windows, a.vectors), a.windows.possible) for a in articles]
    characters = [len(a.text) for a in articles]
    for mean in (90, 120, 180):
        penalty = penalty_for(mean, characters, held)
        chunks = sum(len(least(cost, penalty)) for cost in held)
        assert sum(characters) / chunks == pytest.approx(mean, rel=0.1)


def test_paragraphs_end_chunks_where_sentences_fit():
    text = "One is here. Two is here.\n\nThree is here. Four is here.\n\nFive is here. Six is here."
    assert [text[s:e] for s, e in paragraphs(text, 27)] == [
        "One is here. Two is here.\n\n",
        "Three is here. Four is here.\n\n",
        "Five is here. Six is here.",
    ]


def test_a_short_line_goes_with_its_neighbours():
    text = "Tea.\n\nIt is drunk hot, and by most without milk.\n\nCake."
    assert len(paragraphs(text, 60)) == 1


# What training makes of questions


def by_hand(articles, cuts, place, question):
    """Tokens to answer of one question, chunk by chunk."""
    asked = articles[place].questions[question].astype(np.float64)
    pool = []
    for i, (article, taken) in enumerate(zip(articles, cuts, strict=True)):
        for chunk in article.numbers(taken):
            first, behind = article.possible[chunk]
            answer = article.answers[question] if i == place else (-1, -1)
            holds = i == place and first <= answer[0] and answer[1] < behind
            tokens = article.tokens[behind] - article.tokens[first]
            pool.append((float(asked @ article.chunks[chunk].astype(np.float64)), int(tokens), holds))
    read = 0
    for _, tokens, holds in sorted(pool, key=lambda chunk: -chunk[0]):
        read += tokens
        if holds:
            return read
    return np.inf


def test_tokens_to_answer_are_those_of_all_chunks_up_to_the_answer(articles):
    cuts = [packed(article, 150) for article in articles]
    found = tokens_to_answer(articles, cuts)
    for place in (0, 3):
        expected = [by_hand(articles, cuts, place, question) for question in range(len(SUBJECTS))]
        assert found[place].tolist() == expected


def test_a_chunk_costs_more_where_more_has_to_be_read_to_find_the_answer(articles):
    """The answer alone in its chunk, or with a sentence beside it that nobody asked for."""
    for article, cost in zip(articles, chunk_costs(articles, FINEST), strict=True):
        asked = np.unique(article.answers[:, 0])
        alone = [cost[unit, 0] for unit in asked if unit + 1 < len(cost) and article.windows.possible[unit, 1]]
        wider = [cost[unit, 1] for unit in asked if unit + 1 < len(cost) and article.windows.possible[unit, 1]]
        assert np.mean(alone) < np.mean(wider)
        unasked = np.setdiff1d(np.arange(len(cost)), asked)
        assert (cost[unasked, 0] == 0).all()


def test_training_lowers_the_loss_and_is_the_same_every_time(articles):
    import torch

    before = torch.get_rng_state()
    first, second = (training.train(articles, HELD_OUT, FINEST, QUICK, seed=3) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    assert stored(first.scorer) == stored(second.scorer)
    assert first.curve == second.curve
    assert first.curve[-1]["train_loss"] < first.curve[0]["train_loss"]
    assert stored(training.train(articles, HELD_OUT, FINEST, QUICK, seed=4).scorer) != stored(first.scorer)


def test_the_scorer_tells_sentences_with_facts_from_others(articles, encode):
    """On documents that it was not trained on: where answers stand, short chunks; elsewhere, longer ones."""
    settings = QUICK.model_copy(update={"epochs": 25, "patience": 25})
    fitted = training.train(articles, HELD_OUT, FINEST, settings, seed=1)
    model = network(Shape(**fitted.scorer.facts["shape"]))
    import torch

    model.load_state_dict({name: torch.from_numpy(array) for name, array in fitted.scorer.weights.items()})
    (article,) = encode_articles(sources(8)[7:], unit_chars(FINEST), encode)
    cost = costs(scores(model, article.windows, article.vectors), article.windows.possible)
    asked = np.unique(article.answers[:, 0])
    assert cost[asked, 0].min() > np.setdiff1d(cost[:, 0], cost[asked, 0]).max()


# What is stored


def test_a_stored_chunker_cuts_as_the_trained_one(tmp_path, articles, trained):
    scorer, model = opened(saved(tmp_path, trained.scorer))
    assert scorer.facts == json.loads(json.dumps(trained.scorer.facts))
    for article in articles:
        spans = cut(article, scorer, model)
        assert "".join(article.text[start:end] for start, end in spans) == article.text
        assert (np.diff(spans) <= unit_chars(FINEST)).all()


@pytest.mark.parametrize("wrong", [b"", b"no weights at all", stored(training.Scorer({}, {"shape": {"vector": 4}}))])
def test_what_is_no_chunker_is_refused(tmp_path, wrong):
    path = tmp_path / "chunker.safetensors"
    path.write_bytes(wrong)
    with pytest.raises(MogError, match="expected the weights of a chunker"):
        opened(path)


def test_other_vectors_than_those_of_the_units_are_refused(tmp_path, articles, trained):
    scorer, model = opened(saved(tmp_path, trained.scorer))
    with pytest.raises(ValueError, match="a row for each"):
        spans_of(articles[0].text, FINEST, articles[0].vectors[1:], scorer, model)


def test_a_sentence_longer_than_a_chunk_stands_by_itself(tmp_path, trained, encode):
    long = "words " * 60 + "end. "
    text = "It is short. " + long + "It is short too. "
    ends = units(text, unit_chars(FINEST))
    vectors = encode([text[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)])
    scorer, model = opened(saved(tmp_path, trained.scorer))
    spans = spans_of(text, FINEST, vectors, scorer, model)
    assert (np.diff(spans) <= unit_chars(FINEST)).all()
    assert "".join(text[start:end] for start, end in spans) == text


# Which documents


def test_questions_without_an_answer_that_a_chunk_holds_are_passed_over():
    texts = {("c", "a"): ("", "x" * 500), ("c", "b"): ("", "y" * 500)}
    asked = [
        Question("1", "short?", "", "train", evidence=(Evidence("c", "a", 3, 9),)),
        Question("2", "long?", "", "train", evidence=(Evidence("c", "b", 0, 300),)),
        Question("3", "elsewhere?", "", "train", evidence=(Evidence("d", "a", 3, 9),)),
        Question("4", "in two?", "", "train", evidence=(Evidence("c", "a", 1, 2), Evidence("c", "b", 1, 2))),
        Question("5", "across?", "", "train", evidence=(Evidence("c", "a", 200, 300),)),
    ]
    (found,) = usable_sources(texts, asked, 240)
    assert (found.name, found.questions, found.answers.tolist()) == ("c/a", ["short?"], [[3, 9]])


def test_documents_are_taken_until_they_have_as_many_possible_chunks_as_asked():
    held = sources(6)
    chunks = [int(candidates(units(s.text, 240), 240)[1].sum()) for s in held]
    kept = within(held, 240, sum(chunks[:3]))
    assert 2 <= len(kept) < 6
    assert within(held, 240, sum(chunks)) == held
    assert len(within(held, 240, 1)) == 2


# In the graph


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_valleys(folder, count):
    """Documents and questions of so many valleys, and one document that nobody asks about."""
    held = sources(count)
    documents = [{"id": s.name.split("/")[1], "title": "", "text": s.text} for s in held]
    write_lines(folder / "valleys.jsonl", [*documents, {"id": "other", "title": "", "text": "Of bread. " * 30}])
    write_lines(
        folder / "questions.jsonl",
        [
            {
                "id": f"{s.name}-{i}",
                "question": text,
                "kind": "count",
                "split": "train",
                "evidence": [{"corpus": "valleys", "doc": s.name.split("/")[1], "start": int(start), "end": int(end)}],
            }
            for s in held
            for i, (text, (start, end)) in enumerate(zip(s.questions, s.answers, strict=True))
        ],
    )


@pytest.fixture
def valleys(tmp_path, make_project):
    write_valleys(tmp_path, 6)
    return make_project(
        tmp_path,
        {
            "corpora": {"valleys": {"path": "valleys.jsonl"}},
            "question_sets": {"q": {"path": "questions.jsonl", "corpora": ["valleys"], "train": ["train"]}},
            "levels": 2,
            "finest_chars": FINEST,
            "chunker": {"name": "learned", "training": QUICK.model_dump(mode="json")},
            "methods": ["fixed-1", "fixed-2", "mog-paper", "hop-1+topics"],
            # More than there are: nothing is fitted.
            "topics": {"min_topic_size": 1000},
        },
    )


def build(project, materialise, *keys):
    report = materialise(project.settings, select=keys)
    assert report.failures == []
    return {step["asset"]: step["recomputed"] for step in report.steps}


CHUNKS = ("documents", "questions", "sentence_vectors", "chunker", "chunks/level_1")


@pytest.mark.full
def test_the_graph_runs_on_learned_chunks(valleys, materialise_project):
    recomputed = build(valleys, materialise_project)
    assert recomputed["chunker"] == {"epochs trained": 3}
    assert {"soft_labels", "router_paper", "embeddings/level_2", "topics/assigned", "sentence_graph"} <= set(recomputed)
    artefact = Store(valleys.home).read("chunker")
    assert set(artefact.shown()) == {"training", "facts"}
    (found,) = (
        serving.open(valleys.settings, ["valleys"], keep=False)
        .search(sources()[2].questions[0], method="mog-paper", k=1)
        .passages
    )
    text = article_text(int(found.document))
    assert found.text == text[found.start : found.end] and "The heron" in found.text
    assert build(valleys, materialise_project) == {}


@pytest.mark.full
def test_a_new_chunker_cuts_again_and_a_new_document_alone_does_not_make_one(valleys, materialise_project):
    build(valleys, materialise_project, *CHUNKS)
    first = Store(valleys.home).read("chunker").manifest.version
    with (valleys.folder / "valleys.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"id": "new", "title": "", "text": "Nobody asks about this. " * 20}) + "\n")
    recomputed = build(valleys, materialise_project, *CHUNKS)
    assert "epochs trained" not in recomputed["chunker"]
    assert recomputed["chunks/level_1"]["documents split"] == 1
    assert Store(valleys.home).read("chunker").manifest.version == first
    write_valleys(valleys.folder, 7)
    recomputed = build(valleys, materialise_project, *CHUNKS)
    assert recomputed["chunker"]["epochs trained"] >= 1
    assert recomputed["chunks/level_1"] == {"documents split": 8, "documents unchanged": 0}


def test_without_questions_to_train_on_it_says_what_is_missing(valleys, materialise_project):
    asked = {"id": "q", "question": "What is bread?", "kind": "what", "split": "train"}
    write_lines(valleys.folder / "questions.jsonl", [{**asked, "evidence": []}])
    report = materialise_project(valleys.settings, select=CHUNKS)
    assert "'learned' expects training questions" in " ".join(report.failures), report.failures


def test_a_chunker_is_in_the_graph_only_where_it_is_learned(valleys):
    assert "chunker" in plan.graph(valleys.settings)
    settings = valleys.settings.model_copy(
        update={"chunker": valleys.settings.chunker.model_copy(update={"name": "fixed"})}
    )
    assert "chunker" not in plan.graph(settings)
