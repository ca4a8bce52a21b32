"""Compiled functions are kept on disk where that is possible; what a library can do without is not imported."""

import importlib.util
import sys

import numba
import pytest

from mog_assets.compiled import hidden, keep

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


def test_a_hidden_module_cannot_be_imported_within_and_can_afterwards(tmp_path, monkeypatch):
    (tmp_path / "optional_part.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    with hidden("optional_part", "json"):
        with pytest.raises(ModuleNotFoundError, match="No module named 'optional_part'"):
            importlib.import_module("optional_part")
        # What has been imported stays.
        assert importlib.import_module("json").loads("1") == 1
    assert importlib.import_module("optional_part").__name__ == "optional_part"
    monkeypatch.delitem(sys.modules, "optional_part")
