"""Copy this checkout without its papers and plugins, or with some of them: the core must stand alone.

python .ci/parts.py copy FOLDER              the core
python .ci/parts.py copy FOLDER papers ray   with all papers, and the plugin `ray`
python .ci/parts.py test                     all tests: the core's in a copy of the core, those of papers and of each
                                             plugin in copies with that part alone, and those of the whole here

Entry points of what is left out are left out, too. The copy gets an environment that sees the packages of this one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_ENTRY = re.compile(r'^[\w-]+ = "mog_assets\.(papers|plugins)\.(\w+)[\w.:]*"\n', re.MULTILINE)


def copy_parts(folder: Path, parts: list[str]) -> None:
    """Copy what git knows to an empty folder, with some parts alone, and install it there.

    Args:
        folder: Where to.
        parts: `papers`, and names of plugins.
    """
    folder.mkdir(parents=True, exist_ok=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        part = re.match(r"(?:mog_assets|tests)/(?:(papers|whole)|plugins/(\w+))/", name)
        if part is None or (part[1] or part[2]) in parts:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    project = folder / "pyproject.toml"
    text = project.read_text(encoding="utf-8")
    text = _ENTRY.sub(lambda entry: entry[0] if {entry[1], entry[2]} & set(parts) else "", text)
    project.write_text(text, encoding="utf-8")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / ".venv")], check=True)
    (site,) = (folder / ".venv" / "lib").glob("python3*/site-packages")
    # Its own modules and metadata come before those of this checkout, whose packages it shares.
    others = "".join(f"{path}\n" for path in sys.path if Path(path).name == "site-packages")
    (site / "a.pth").write_text(f"import sys; sys.path.insert(0, {str(folder)!r})\n", encoding="utf-8")
    (site / "b.pth").write_text(others, encoding="utf-8")
    pip = [str(folder / ".venv" / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--no-compile", "-e", "."], cwd=folder, check=True)


def check_parts() -> bool:
    """Run every test once, where it must pass; return whether all did."""
    plugins = sorted(path.parent.name for path in (ROOT / "mog_assets" / "plugins").glob("*/__init__.py"))
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(2) as pool:
        folder = Path(temporary)
        # What the core's tests build of the samples is where those of a plugin begin.
        home = {"MOG_TEST_HOME": str(folder / "home")}
        passed = [_test(folder / "core", [], ["-n", "2"], home), _test(folder / "papers", ["papers"], ["-n", "2"], {})]
        passed += pool.map(lambda name: _test(folder / name, [name], [], home), plugins)
    return all([*passed, _run(ROOT, "everything", ["-n", "2", "-m", "whole"], {})])


def _test(folder: Path, parts: list[str], options: list[str], variables: dict[str, str]) -> bool:
    """Run the tests of some parts alone, those of the core if none is named."""
    copy_parts(folder, parts)
    tests = [f"tests/{part}" if part == "papers" else f"tests/plugins/{part}" for part in parts]
    passed = _run(folder, ", ".join(parts) or "the core", [*options, "-m", "not whole", *tests], variables)
    shutil.rmtree(folder)
    return passed


def _run(folder: Path, name: str, options: list[str], variables: dict[str, str]) -> bool:
    usual = ["--dist", "loadfile", "--no-loadscope-reorder", "--hypothesis-profile", "full", "-p", "no:cacheprovider"]
    python = [str(folder / ".venv" / "bin" / "python"), "-m", "pytest", "-rfE"]
    # Output of those that run side by side is shown when they end.
    aside = None if "-n" in options else subprocess.PIPE
    sys.stdout.write(f"{name}:\n" if aside is None else "")
    sys.stdout.flush()
    environment, command = {**os.environ, **variables}, [*python, *usual, *options]
    ran = subprocess.run(command, cwd=folder, env=environment, stdout=aside, stderr=subprocess.STDOUT)
    if ran.stdout is not None:
        sys.stdout.write(f"{name}:\n{ran.stdout.decode(errors='replace')}")
        sys.stdout.flush()
    # Finding no test is an error, too.
    return ran.returncode == 0


if __name__ == "__main__":
    if sys.argv[1] == "test":
        sys.exit(not check_parts())
    copy_parts(Path(sys.argv[2]).resolve(), sys.argv[3:])
