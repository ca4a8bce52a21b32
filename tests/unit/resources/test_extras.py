"""Packages of extras that are missing are told with what adds them."""

import pytest

from mog_assets.resources import extras
from mog_assets.resources.errors import MogError


def test_a_missing_package_is_told_with_what_needs_it_and_what_adds_it():
    with (
        pytest.raises(MogError, match=r"^topics needs the package umap: pip install 'mog-assets\[topics\]'$"),
        extras.needed("topics"),
    ):
        raise ModuleNotFoundError("No module named 'umap.layouts'", name="umap")


def test_a_missing_module_of_the_project_is_no_package_to_add():
    with pytest.raises(ModuleNotFoundError), extras.needed("topics"):
        import mog_assets.no_such_module  # noqa: F401
