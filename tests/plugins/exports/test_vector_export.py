"""Exported chunks: what another vector database loads finds what the project finds."""

import subprocess

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from served import command, environment

import mog_assets
from mog_assets.build.tools import Tools
from mog_assets.documents.documents import write_documents
from mog_assets.documents.reading import read_corpus
from mog_assets.plugins.exports import vectors
from mog_assets.text.chunks import Layout


def exported(project, folder, *options):
    words = [*command("export"), "--vectors", "--to", folder, "--config", project.config, *options]
    return subprocess.run(words, env=environment(), capture_output=True, text=True)


@pytest.mark.parametrize("level", [1, 3])
def test_the_nearest_exported_chunk_is_the_one_that_the_project_finds(sample_project, tmp_path, level):
    done = exported(sample_project, tmp_path, "--level", str(level))
    assert done.returncode == 0, done.stderr
    files = [tmp_path / "vectors" / f"{corpus}.parquet" for corpus in sample_project.settings.corpora]
    assert done.stdout.split() == [str(file) for file in files]
    rows = pd.concat([pq.read_table(file).to_pandas() for file in files])
    assert rows["id"].is_unique and set(rows["level"]) == {level}
    stored = np.stack(rows["vector"])
    assert stored.dtype == np.float32 and np.allclose(np.linalg.norm(stored, axis=1), 1, atol=2e-3)
    question = "How deep should garlic cloves be planted?"
    (asked,) = Tools(sample_project.settings).encoder.encode_questions([question]).astype(np.float32)
    best = rows.iloc[int(np.argmax(stored @ asked))]
    with mog_assets.open(sample_project.config) as project:
        passage = project.search(question, method=f"dense-{level}", k=1).passages[0]
        whole = {
            (row.corpus, row.document): project.document(row.corpus, row.document).text for row in rows.itertuples()
        }
    assert (best["corpus"], best["document"], best["start"]) == (passage.corpus, passage.document, passage.start)
    assert all(row.text == whole[row.corpus, row.document][row.start : row.end] for row in rows.itertuples())


def test_a_level_that_there_is_not_is_told(sample_project, tmp_path):
    done = exported(sample_project, tmp_path, "--level", "9")
    assert done.returncode == 2 and done.stderr == "mog: --level: expected a level from 1 to 5, got 9\n"
    assert not list(tmp_path.iterdir())


def test_chunks_tell_page_headings_and_metadata_of_their_documents(tmp_path):
    text = "# Ponds\n\nThe newt lives in the pond.\n\n## Winter\n\nIt sleeps under a stone."
    (tmp_path / "pond.md").write_text(f"---\nyear: 2024\n---\n{text}")
    (document,) = read_corpus(tmp_path).documents
    write_documents([document], tmp_path / "bucket.parquet")
    layout = Layout("c", [document.id], np.array([0, 2]), np.array([[0, 35], [35, len(text)]]))
    first, second = vectors._chunks("c", layout, 1, tmp_path / "bucket.parquet")
    assert first["headings"] == ["Ponds"] == second["headings"] and first["text"] == text[:35]
    assert first["path"] == "pond.md" and first["metadata"] == '{"year": 2024}' and first["modified"].endswith("Z")
    (whole,) = vectors._chunks("c", layout, 2, tmp_path / "bucket.parquet")
    assert (whole["document"], whole["start"], whole["end"], whole["page"]) == ("pond.md", 0, len(text), None)
    one = np.array([1, 0], np.float16)
    assert len({vectors._id(first, one), vectors._id(second, one), vectors._id(first, -one)}) == 3
