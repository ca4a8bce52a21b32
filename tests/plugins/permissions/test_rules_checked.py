"""What `mog doctor` says of the rules."""

from pages_server import nobody  # noqa: F401 (a fixture)

from mog_assets.cli.findings import run_check
from mog_assets.plugins.permissions import findings


def test_rules_that_cannot_be_read_and_keys_that_are_not_there_are_problems(make_project, tmp_path, nobody):
    project = make_project(tmp_path, {"corpora": {"notes": {"path": str(tmp_path / "notes")}}})
    rules = tmp_path / "access.yaml"
    settings = project.settings.model_copy(update={"permissions": rules})

    def found(text):
        rules.write_text(text, encoding="utf-8")
        (finding,) = run_check("permissions", findings.permissions, settings)
        return finding

    assert list(findings.permissions(project.settings)) == []
    (missing,) = run_check("permissions", findings.permissions, settings)
    assert "access.yaml" in missing.found
    good = "principals: {ann: {groups: [staff]}}\nrules: [{allow: [staff]}]\n"
    assert found(good).state == "ok" and found(good).found.endswith("access.yaml: principals 1, rules 1")
    wrong = found("rules: [{allow: staff}]\n")
    assert wrong.state == "problem" and "rules.0.allow" in wrong.found
    other = found(good + "push: [{allow: [staff], corpora: [notes]}]\n")
    assert other.state == "warning" and "push names notes" in other.found
    away = found(good + f"jwt: {{keys: '{nobody}/keys', issuer: i, audience: a}}\n")
    assert away.state == "problem" and "jwt.keys: expected keys from" in away.found
