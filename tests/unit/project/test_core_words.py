"""The core names nothing of a paper: what papers add comes in by the registries."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
WORDS = re.compile(r"\b(?:topics?|hops?|soft.labels?|sentence.graphs?)\b", re.IGNORECASE)
ELSEWHERE = re.compile(r"plugins/|papers/")


def test_no_file_of_the_core_has_a_word_of_a_paper():
    files = [path for folder in ("mog_assets", "resources") for path in (ROOT / folder).rglob("*") if path.is_file()]
    # The folder `mog_assets/resources` is a link to the other one.
    files = [path for path in files if path.suffix in (".py", ".js", ".j2", ".html", ".css", ".md", ".yaml")]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in files
        if not ELSEWHERE.search(path.as_posix())
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        # Names that are joined by underscores have words, too.
        if WORDS.search(line.replace("_", " "))
    ]
    assert not found
