"""Compiled functions are kept on disk where that is possible."""

import importlib.util

import numba

from mog_assets.papers.compiled import keep

SOURCE = "import numba\n\n@numba.njit\ndef twice(number):\n    return 2 * number\n"


def test_a_compiled_function_is_kept_beside_its_source(tmp_path):
    path = tmp_path / "kept.py"
    path.write_text(SOURCE, encoding="utf-8")
    specification = importlib.util.spec_from_file_location("kept", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    keep(module.twice, "no function")
    assert module.twice(2) == 4
    assert [file.suffix for file in sorted((tmp_path / "__pycache__").glob("kept.twice-*.nb?"))] == [".nbc", ".nbi"]


def test_a_function_that_cannot_be_kept_works_all_the_same():
    # It has no file, so there is no place beside it.
    names = {}
    exec(compile(SOURCE, "<nowhere>", "exec"), names)
    keep(names["twice"])
    assert names["twice"](2) == 4 and isinstance(names["twice"], numba.core.registry.CPUDispatcher)
