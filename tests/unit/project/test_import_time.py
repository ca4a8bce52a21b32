"""What a search imports: a question from the command line waits for every module that is loaded and not needed."""

import os
import re
import subprocess
import sys

import pytest

# Loaded by other commands. `transformers` is needed for other encoders than the embedded one.
HEAVY = ("bertopic", "dagster", "hdbscan", "ir_measures", "matplotlib", "openai", "pandas", "PIL", "qdrant_client")
HEAVY += ("scipy.optimize", "scipy.stats", "sentence_transformers", "sklearn", "sqlalchemy")
HEAVY += ("torch._dynamo", "torch._inductor", "transformers", "umap")


def imported(*arguments):
    """Names of all modules that the command imports in a process of its own."""
    command = [sys.executable, "-X", "importtime", "-m", "mog_assets.cli", *map(str, arguments)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPROFILEIMPORTTIME"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, [line for line in done.stderr.splitlines() if not line.startswith("import time:")]
    assert done.stdout.strip()
    return set(re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.MULTILINE))


def heavy(modules):
    # By what is imported within them: an attempt that fails is listed, too.
    return [name for name in HEAVY if any(m.startswith(f"{name}.") for m in modules)]


@pytest.mark.parts("mog-paper")
@pytest.mark.parametrize(
    ("method", "needed", "not_needed"),
    [
        # The router weighs a vector of the question.
        ("mog-paper", {"tokenizers"}, {"torch", "qdrant_edge", "numba"}),
        ("fused", {"tokenizers"}, {"torch", "scipy", "qdrant_edge", "bm25s", "numba"}),
        pytest.param("dense-2", {"tokenizers"}, {"torch", "qdrant_edge", "bm25s"}, marks=pytest.mark.full),
        ("fixed-2", {"Stemmer"}, {"torch", "qdrant_edge", "bm25s", "numba"}),
        ("mix", {"lightgbm"}, set()),
    ],
)
def test_a_search_imports_what_its_method_needs_alone(sample_project, method, needed, not_needed):
    # A question that was not asked before, so that it is encoded.
    question = f"How is what {method} looks for found?"
    modules = imported("search", question, "--method", method, "--config", sample_project.config)
    assert needed <= modules
    assert not heavy(modules) and not not_needed & modules


def test_the_help_imports_nothing_heavy():
    modules = imported("--help")
    assert "click" in modules
    assert not heavy(modules) and not {"torch", "pyarrow", "scipy"} & modules
