"""What `mog documents` says of metadata that points cannot hold."""

import json

from click.testing import CliRunner

from mog_assets.cli import main


def test_documents_are_counted_with_those_whose_metadata_a_point_cannot_hold(tmp_path, make_project, write_documents):
    deep = {}
    for _ in range(130):
        deep = {"in": deep}
    source = write_documents(tmp_path / "notes.jsonl", [("a", "Bread dough rises. Yeast makes gas.")])
    line = json.dumps({"id": "deep", "text": "Deep.", "metadata": {"deep": deep, "by": "me"}})
    source.write_text(source.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    config = str(
        make_project(tmp_path, {"corpora": {"notes": {"path": str(source)}}, "levels": 2, "qdrant": {}}).config
    )
    assert CliRunner().invoke(main, ["run", "--config", config, "--select", "documents"]).exit_code == 0
    (row,) = json.loads(CliRunner().invoke(main, ["documents", "--config", config, "--json"]).output)
    assert (row["corpus"], row["skipped"], row["with metadata left out of Qdrant"]) == ("notes", 0, 1)
