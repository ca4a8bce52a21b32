"""What `mog doctor` says of a corpus that is pushed."""

import pytest

from mog_assets.plugins.pushing import pushed


@pytest.mark.whole
def test_a_corpus_is_looked_at_before_and_after_the_first_push(tmp_path, make_project):
    from mog_assets.plugins.upkeep import doctor

    settings = make_project(tmp_path, {"corpora": {"notes": {"pushed": "notes.sqlite"}}}).settings
    assert [finding.state for finding in doctor.documents(settings)] == ["ok"]
    (notes,) = doctor.sources(settings)
    assert notes.state == "problem" and "nothing was pushed yet: push a document with `mog push`" in notes.found
    pushed.push(pushed.files_of(settings)["notes"], [{"id": "1", "text": "Two geese."}])
    assert [finding.state for finding in doctor.sources(settings)] == ["ok"]
