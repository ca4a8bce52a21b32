"""Sets of artefacts that were made from each other."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mog_assets.resources import publishing
from mog_assets.resources.errors import MissingArtefact
from mog_assets.resources.files import atomic
from mog_assets.resources.publishing import ArtefactsDisagree, newest, publish, published, write_set
from mog_assets.resources.sets import open_set, touch_set
from mog_assets.resources.store import Store, digest

REQUIRED = [(asset, corpus) for asset in ("documents", "index") for corpus in ("garden", "sky")]
REQUIRED += [("statistics", None), ("method", None)]
OTHERS = [("graph", "garden"), ("graph", "sky"), ("model", None)]
MADE_FROM = {"index": "documents", "graph": "documents", "statistics": "index"}


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    for asset in ("documents", "index", "statistics", "method", "graph", "model"):
        for corpus in ("garden", "sky") if (asset, None) not in [*REQUIRED, *OTHERS] else (None,):
            make(store, asset, corpus)
    publish(store, REQUIRED, OTHERS)
    return store


def make(store, asset, corpus, text="first"):
    """Make an artefact from what there is now."""
    source, inputs = MADE_FROM.get(asset), {}
    for of in [corpus] if corpus else ["garden", "sky"]:
        if source and (artefact := store.find(source, of)):
            inputs[f"{source} of corpus {of}"] = artefact.manifest.version
    with store.lock(asset, corpus):
        draft = store.draft(asset, corpus)
        path, there = draft.file("data.txt", digest(asset, text))
        if not there:
            with atomic(path) as temporary:
                temporary.write_text(text)
        return store.commit(draft, asset, corpus, recipe="r", inputs=inputs, counts={}, info={}, seconds=0.0)


def texts(artefacts):
    return {place: stored.path("data.txt").read_text() for place, stored in artefacts.artefacts.items()}


def test_a_set_is_published_when_all_that_is_required_was_made_from_each_other(store):
    before = open_set(store, REQUIRED, OTHERS)
    assert before.artefacts.keys() == {*REQUIRED, *OTHERS} and set(texts(before).values()) == {"first"}
    for asset, corpus in (("documents", "garden"), ("index", "garden"), ("statistics", None)):
        now = open_set(store, REQUIRED, OTHERS)
        assert (now.version, now.path, texts(now)) == (before.version, before.path, texts(before))
        make(store, asset, corpus, "second")
        publish(store, REQUIRED, OTHERS)
    after = open_set(store, REQUIRED, OTHERS)
    assert after.version != before.version and texts(after)["documents", "garden"] == "second"
    # What is out of date and not required is not there; models are.
    assert ("graph", "garden") not in after.artefacts and ("model", None) in after.artefacts
    with pytest.raises(MissingArtefact, match="graph of corpus garden has not been materialised for what is searched"):
        after.read("graph", "garden")


def test_what_is_unchanged_is_not_published_again(store):
    before = newest(store.home)
    publish(store, REQUIRED, OTHERS)
    assert newest(store.home) == before
    make(store, "model", None, "second")
    publish(store, REQUIRED, OTHERS)
    assert newest(store.home) > before


def test_a_new_corpus_that_is_not_complete_keeps_no_other_from_being_published(store):
    required = [*REQUIRED, ("documents", "moon"), ("index", "moon")]
    make(store, "documents", "moon")
    make(store, "method", None, "second")
    publish(store, required, OTHERS)
    assert texts(open_set(store, REQUIRED, OTHERS))["method", None] == "second"
    with pytest.raises(MissingArtefact, match="index of corpus moon has not been materialised"):
        open_set(store, required, OTHERS)


def test_without_a_set_that_can_be_read_artefacts_are_read_as_they_are_if_they_agree(store, caplog):
    newest(store.home).write_bytes(b"damaged")
    assert open_set(store, REQUIRED, OTHERS).artefacts.keys() == {*REQUIRED, *OTHERS}
    assert "cannot be read" in caplog.text
    make(store, "documents", "garden", "second")
    with pytest.raises(ArtefactsDisagree, match="index of corpus garden was made from another version of documents"):
        open_set(store, REQUIRED, OTHERS)


def test_of_a_damaged_set_the_one_before_answers_and_the_next_publishing_replaces_it(store, caplog):
    before = open_set(store, REQUIRED, OTHERS)
    make(store, "method", None, "second")
    publish(store, REQUIRED, OTHERS)
    damaged = newest(store.home)
    damaged.write_bytes(b"damaged")
    assert open_set(store, REQUIRED, OTHERS).version == before.version
    assert "the set before it is opened" in caplog.text
    publish(store, REQUIRED, OTHERS)
    assert newest(store.home) != damaged
    assert texts(open_set(store, REQUIRED, OTHERS))["method", None] == "second"


def test_who_publishes_at_the_same_time_takes_another_number(store):
    manifests = [store.read(*place).manifest for place in REQUIRED]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda count: write_set(store.home, manifests[:count]), range(1, 5)))
    numbers = [path.name.partition("-")[0] for path in published(store.home)]
    assert len(numbers) == 5 == len(set(numbers))


def test_a_set_that_is_touched_while_it_is_removed_stays(store, monkeypatch):
    path, rename = newest(store.home), Path.rename

    def touched(self, target):
        if self == path:
            touch_set(path)
        return rename(self, target)

    named = store.read("index", "sky").path("data.txt")
    make(store, "method", None, "second")
    publish(store, REQUIRED, OTHERS)
    monkeypatch.setattr(Path, "rename", touched)
    assert publishing._unread(store.home, [named]) == [] and path.exists()


def test_a_set_whose_files_are_damaged_is_not_opened(store):
    store.read("index", "sky").path("data.txt").unlink()
    with pytest.raises(MissingArtefact, match="index of corpus sky has not been materialised: run `mog run`"):
        open_set(store, REQUIRED, OTHERS)
