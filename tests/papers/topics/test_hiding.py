"""What a library can do without is not imported."""

import importlib
import sys

import pytest

from mog_assets.papers.topics.hiding import hidden


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
