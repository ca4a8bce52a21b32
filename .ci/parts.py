"""Copy this checkout without its papers and plugins, or with some of them: the core must stand alone.

python .ci/parts.py FOLDER              the core
python .ci/parts.py FOLDER papers ray   with all papers, and the plugin `ray`

Entry points of what is left out are left out, too. The copy gets an environment that sees the packages of this one.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_ENTRY = re.compile(r'^[\w-]+ = "mog_assets\.(papers|plugins)\.(\w+)[\w.:]*"\n', re.MULTILINE)


def copy_parts(folder: Path, parts: list[str]) -> None:
    """Copy what git knows to an empty folder, with some parts alone, and install it there.

    Args:
        folder: Where to.
        parts: `papers`, and names of plugins.
    """
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        part = re.match(r"(?:mog_assets|tests)/(?:(papers)|plugins/(\w+))/", name)
        if part is None or (part[1] or part[2]) in parts:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    project = folder / "pyproject.toml"
    text = project.read_text(encoding="utf-8")
    text = _ENTRY.sub(lambda entry: entry[0] if {"papers": "papers"}.get(entry[1], entry[2]) in parts else "", text)
    project.write_text(text, encoding="utf-8")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / ".venv")], check=True)
    (site,) = (folder / ".venv" / "lib").glob("python3*/site-packages")
    # Its own modules and metadata come before those of this checkout, whose packages it shares.
    others = "".join(f"{path}\n" for path in sys.path if Path(path).name == "site-packages")
    (site / "a.pth").write_text(f"import sys; sys.path.insert(0, {str(folder)!r})\n", encoding="utf-8")
    (site / "b.pth").write_text(others, encoding="utf-8")
    pip = [str(folder / ".venv" / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--no-compile", "-e", "."], cwd=folder, check=True)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True)
    copy_parts(target.resolve(), sys.argv[2:])
