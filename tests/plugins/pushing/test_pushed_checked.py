"""What `mog doctor` says of a corpus that is pushed."""

from mog_assets.cli import doctor
from mog_assets.plugins.pushing import pushed


def test_a_corpus_is_looked_at_before_and_after_the_first_push(tmp_path, make_project):
    settings = make_project(tmp_path, {"corpora": {"notes": {"pushed": "notes.sqlite"}}}).settings
    assert [finding.state for finding in doctor.documents(settings)] == ["ok"]
    (notes,) = doctor.sources(settings)
    assert notes.state == "problem" and "nothing was pushed yet: push a document with `mog push`" in notes.found
    pushed.push(pushed.files_of(settings)["notes"], [{"id": "1", "text": "Two geese."}])
    assert [finding.state for finding in doctor.sources(settings)] == ["ok"]
