"""Exported chunks: what another vector database loads finds what the project finds."""

import subprocess

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from served import command, environment

import mog_assets
from mog_assets.build.tools import Tools


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
    vectors = np.stack(rows["vector"])
    assert vectors.dtype == np.float32 and np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=2e-3)
    question = "How deep should garlic cloves be planted?"
    (asked,) = Tools(sample_project.settings).encoder.encode_questions([question]).astype(np.float32)
    best = rows.iloc[int(np.argmax(vectors @ asked))]
    with mog_assets.open(sample_project.config) as project:
        passage = project.retrieve(question, method=f"dense-{level}", k=1).passages[0]
        whole = {
            (row.corpus, row.document): project.document(row.corpus, row.document).text for row in rows.itertuples()
        }
    assert (best["corpus"], best["document"], best["start"]) == (passage.corpus, passage.doc, passage.start)
    assert all(row.text == whole[row.corpus, row.document][row.start : row.end] for row in rows.itertuples())


def test_a_level_that_there_is_not_is_told(sample_project, tmp_path):
    done = exported(sample_project, tmp_path, "--level", "9")
    assert done.returncode == 2 and done.stderr == "mog: --level: expected a level from 1 to 5, got 9\n"
    assert not list(tmp_path.iterdir())
