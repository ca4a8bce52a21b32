"""Whatever stands in `mog.yaml`: one line that names key, value and remedy, and never a traceback."""

import pytest
from click.testing import CliRunner
from hostile_configs import CASES, CHEAPEST, OF_PAPERS, called, complaint, made

from mog_assets import config
from mog_assets.cli import main
from mog_assets.resources.errors import ConfigError

# Their making is what takes long; tests of the encoder have it.
LONG = ("encoder of garbage",)
# Through a process of its own: what only the interpreter's ends show.
IN_A_PROCESS = ("deep mappings", "alias bomb as a value", "home under a file")
READ = [name for name, case in CASES.items() if case.command == CHEAPEST and case.code != 1]
RUN = [name for name in CASES if name not in (*READ, *LONG)]


def marked(names):
    """Names of cases; those of papers are of the whole."""
    return [pytest.param(name, marks=pytest.mark.whole) if name in OF_PAPERS else name for name in names]


@pytest.mark.parametrize("name", marked(READ))
def test_a_hostile_configuration_is_refused_in_one_line_when_it_is_read(name, tmp_path):
    case = CASES[name]
    code, said = 0, ""
    try:
        config.load(made(case, tmp_path))
    except ConfigError as error:
        code, said = 2, f"mog: {error}"
    assert complaint(case, code, "", said) == ""


@pytest.mark.parametrize("name", marked(RUN))
def test_a_hostile_project_fails_in_one_line(name, tmp_path):
    case = CASES[name]
    result = CliRunner().invoke(main, [*case.command, "--config", str(made(case, tmp_path))])
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert complaint(case, result.exit_code, result.stdout, result.stderr) == ""


@pytest.mark.parametrize("name", IN_A_PROCESS)
def test_a_hostile_configuration_is_one_line_of_a_real_process(name, tmp_path):
    assert called(name, tmp_path) == ""
