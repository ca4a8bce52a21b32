"""The page of permissions shows files of rules that are ones."""

import json

import jsonschema
import yaml
from documentation import blocks
from shared import ROOT

from mog_assets.plugins.permissions.rules import PermissionSettings, hashed


def test_every_file_of_rules_on_a_page_is_one_and_meets_the_schema():
    schema, shown = jsonschema.Draft202012Validator(PermissionSettings.model_json_schema()), 0
    for page in (ROOT / "docs").glob("*.md"):
        for body in blocks(page, "yaml"):
            if not body.startswith("# access.yaml"):
                continue
            raw, shown = yaml.safe_load(body), shown + 1
            assert list(schema.iter_errors(raw)) == [], page
            for principal in raw.get("principals", {}).values():
                # Shortened on the page.
                assert principal["key"].startswith("sha256:")
                principal["key"] = hashed("a key")
            assert PermissionSettings.model_validate_json(json.dumps(raw), strict=True).rules
    assert shown
