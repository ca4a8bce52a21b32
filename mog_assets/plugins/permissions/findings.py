"""What `mog doctor` finds of the rules."""

from __future__ import annotations

from collections.abc import Iterator

from mog_assets.cli.findings import OK, WARNING, Finding
from mog_assets.config import Settings
from mog_assets.plugins.permissions.settings import PERMISSIONS
from mog_assets.registry import FINDINGS


def permissions(settings: Settings) -> Iterator[Finding]:
    """Check that the rules of who may see what, and the keys of an identity provider, can be read."""
    from mog_assets.plugins.permissions.rules import Permissions

    path = PERMISSIONS.of(settings)
    if path is None:
        return
    rules = Permissions(path).rules
    if rules.tokens is not None:
        rules.tokens.check()
    summary = f"{path}: principals {len(rules.settings.principals)}, rules {len(rules.settings.rules)}"
    summary += "" if rules.tokens is None else ", and tokens of an identity provider, whose keys are there"
    takers = {name for name, corpus in settings.corpora.items() if (corpus.source or "").startswith("pushed://")}
    others = sorted({name for rule in rules.settings.push for name in rule.corpora} - takers)
    if others:
        remedy = f"name corpora with a source `pushed://FILE` ({', '.join(sorted(takers)) or 'there are none'})"
        yield Finding("permissions", WARNING, f"{summary}; push names {', '.join(others)}, which take none", remedy)
    else:
        yield Finding("permissions", OK, summary)


FINDINGS.register("permissions", permissions)
