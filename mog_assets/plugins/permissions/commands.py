"""The command `mog permissions`: what each principal sees, and new keys."""

from __future__ import annotations

import json

import click

from mog_assets.cli.common import config_option, echo, guarded, print_table, settings_of
from mog_assets.plugins.permissions.settings import PERMISSIONS
from mog_assets.registry import COMMANDS
from mog_assets.resources.errors import ConfigError


@click.command()
@click.argument("principal", required=False)
@config_option
@click.option("--group", "groups", multiple=True, help="A group that PRINCIPAL is in; may be given several times.")
@click.option("--new-key", is_flag=True, help="Print a new key, and its hash for the file of permissions.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@guarded
def permissions(principal: str | None, path: str | None, groups: tuple[str, ...], new_key: bool, as_json: bool) -> None:
    """Print how many documents of every corpus each principal sees, or PRINCIPAL alone."""
    from mog_assets.plugins.permissions import rules
    from mog_assets.serve import hooks, project

    if new_key:
        key = rules.new_key()
        echo(f"key:  {key}\nhash: {rules.hashed(key)}")
        return
    settings = settings_of(path)
    if PERMISSIONS.of(settings) is None:
        raise ConfigError("permissions: expected the path of a file of rules in mog.yaml, got none: everybody sees all")
    with project.open(settings, keep=False) as opened:
        assert isinstance(opened.authorizer, rules.Permissions)
        names = [principal] if principal else [*opened.authorizer.rules.settings.principals, hooks.ALL]
        rows = []
        for name in names:
            counts = {corpus.name: corpus.documents for corpus in opened.as_principal(name, groups).corpora}
            rows.append({"principal": name, **{corpus: counts.get(corpus, 0) for corpus in settings.corpora}})
    if as_json:
        echo(json.dumps(rows, ensure_ascii=False, indent=1))
    else:
        print_table("documents that are seen", rows)


COMMANDS.register("permissions", permissions)
