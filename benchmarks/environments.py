"""What an installation takes: clean environments with each extra, their size, their start, and a command in each.

python benchmarks/environments.py

Builds the wheel and the source distribution, makes an environment for the core, for each extra that `all` has, and for
`all`, from the wheel, and one from the source distribution; checks that the packages fit together, and runs a command
that is for what is installed, over the samples, which the environment that this is run in builds.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
QUESTION = "How deep should garlic cloves be planted?"
MODULE = "import mog_assets.serve."
# What an environment is asked to do; words of `mog`, or of Python after `-c`.
COMMANDS: dict[str, list[str]] = {
    "core": ["search", QUESTION, "--method", "fixed-2"],
    "build": ["plan"],
    "local": ["search", QUESTION],
    "topics": ["-c", "import bertopic"],
    "serve": ["-c", f"{MODULE}http"],
    "tokens": ["-c", "import tiktoken, tokenizers"],
    "mcp": ["-c", "import mog_assets.plugins.agents.server"],
    "openai": ["-c", "import mog_assets.resources.endpoint"],
    "qdrant": ["-c", "import qdrant_client, qdrant_edge"],
    "all": ["run"],
    "core, from the source": ["search", QUESTION, "--method", "fixed-2"],
}
IMPORTS = 5


def size(folder: Path) -> int:
    """Bytes of the files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def seconds(command: list[str], cwd: Path) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=cwd, check=True, capture_output=True)
    return time.perf_counter() - started


@click.command()
@click.option("--only", multiple=True, type=click.Choice(list(COMMANDS)), help="These environments; several times.")
@click.option("--python", default=sys.executable, help="The Python that the environments have.")
def main(only: tuple[str, ...], python: str) -> None:
    with tempfile.TemporaryDirectory(prefix="environments-") as made:
        folder = Path(made)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        builder = folder / "builder"
        venv.create(builder, with_pip=True)
        subprocess.run([builder / "bin" / "pip", "install", "-q", "build"], check=True)
        subprocess.run(
            [builder / "bin" / "python", "-m", "build", "-o", folder / "dist", ROOT], check=True, capture_output=True
        )
        (wheel,), (source,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
        print(f"wheel {wheel.stat().st_size / 1e6:.1f} MB, source distribution {source.stat().st_size / 1e6:.1f} MB")
        project = folder / "project"
        project.mkdir()
        own = [sys.executable, "-m", "mog_assets.cli"]
        for words in (["init", "--samples"], ["run"]):
            subprocess.run([*own, *words], cwd=project, check=True, capture_output=True)
        print(f"{'environment':24} {'packages':>8} {'MiB':>6} {'install s':>9} {'import s':>8} {'command s':>9}")
        for name in only or COMMANDS:
            place = folder / "environment"
            subprocess.run([python, "-m", "venv", place], check=True)
            of, path = place / "bin" / "python", source if name.endswith("source") else wheel
            what = str(path) if name.startswith("core") else f"{path}[{name}]"
            install = [*pip, "--python", of, "install", "-q", "--no-compile", "-c", ROOT / "constraints.txt", what]
            taken = seconds([str(word) for word in install], folder)
            subprocess.run([*pip, "--python", of, "check"], check=True, capture_output=True)
            listed = subprocess.run([*pip, "--python", of, "list", "--format", "json"], check=True, capture_output=True)
            start = min(seconds([str(of), "-c", "import mog_assets.cli"], project) for _ in range(IMPORTS))
            words = COMMANDS[name]
            at = project
            if name == "all":
                at = folder / "new"
                at.mkdir()
                subprocess.run([place / "bin" / "mog", "init", "--samples"], cwd=at, check=True, capture_output=True)
            command = [str(of), *words] if words[0] == "-c" else [str(place / "bin" / "mog"), *words]
            row = (len(json.loads(listed.stdout)), size(place / "lib") / 2**20, taken, start, seconds(command, at))
            print(f"{name:24} {row[0]:8} {row[1]:6.0f} {row[2]:9.0f} {row[3]:8.2f} {row[4]:9.1f}  {' '.join(words)}")
            shutil.rmtree(place)


if __name__ == "__main__":
    main()
