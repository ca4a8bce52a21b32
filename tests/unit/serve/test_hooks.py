"""What somebody sees, and what an open project says of its own errors."""

import numpy as np
import pytest

from mog_assets.serve.hooks import Principal
from mog_assets.serve.project import Project
from mog_assets.serve.reading import EVERYTHING, Sight


@pytest.mark.parametrize("sight", [Sight(np.array([True, False])), Sight(known=()), Sight(hidden=frozenset({"owner"}))])
def test_who_does_not_see_a_part_does_not_see_all(sight):
    assert EVERYTHING.is_complete and not sight.is_complete


def test_principals_that_rules_call_alike_are_not_searched_for_together():
    seen = []
    for name in ("ann", "bob"):
        project = Project.__new__(Project)
        project.principal = Principal(name, frozenset({"staff"}))
        seen.append(project.seen_as)
    assert seen[0] != seen[1]


def test_an_error_within_a_property_is_told_as_it_is():
    with pytest.raises(AttributeError, match="authorizer|_generations"):
        _ = Project.__new__(Project).names
    with pytest.raises(AttributeError, match="has no attribute 'nothing_of_the_kind'"):
        _ = Project.__new__(Project).nothing_of_the_kind
