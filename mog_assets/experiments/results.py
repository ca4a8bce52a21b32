"""What experiments found, as Markdown to read: `docs/results.md` is made by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mog_assets.experiments.lab import MARGIN, Findings, board
from mog_assets.markdown import escaped, table

_LEGEND = " ".join(
    f"""
    A value stands with its 95 % bootstrap interval. `difference` (with its interval), `p` and `d` compare a row with
    the row it stands `against`: paired permutation test, two-sided, Holm-corrected over the comparisons of the
    table; d is the mean difference over its standard deviation between documents. `detectable` is the smallest
    difference that this number of documents would have shown (two-sided, .05 corrected for the number of
    comparisons, power .8): what a p above .05 does not rule out. Questions about one document are not independent:
    documents are resampled and permuted, not questions (a question without evidence is a document of its own). All
    of these are of the first measure of the table. That one thing is better than another is seen
    where the test says so, not seen where the interval leaves no room for better by {MARGIN}, and undecided in
    between; that two do alike is seen where the interval of their difference lies within ±{MARGIN}, not seen where
    it lies outside, undecided in between.
    """.split()
)


@dataclass(frozen=True)
class Told:
    """An experiment of one project, as it is kept: everything is a JSON value.

    Attributes:
        name: Of the experiment.
        title: A few words.
        asks: What it asks.
        facts: What was measured, and with what.
        tables: Rows by title.
        claims: As `lab.Claim`.
    """

    name: str
    title: str
    asks: str
    facts: dict[str, str]
    tables: dict[str, list[dict[str, Any]]]
    claims: list[dict[str, str]]

    @classmethod
    def of(cls, name: str, title: str, asks: str, facts: dict[str, str], findings: Findings) -> Told:
        """What an experiment found."""
        scores = findings.scores
        sets = list(dict.fromkeys(scores["question_set"])) if len(scores) else []
        tables = {f"{question_set}, value [95 % interval]": board(scores, question_set) for question_set in sets}
        tables |= {title: [dict(row) for row in rows] for title, rows in findings.tables.items()}
        return cls(name, title, asks, facts, tables, [asdict(claim) for claim in findings.claims])

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Project:
    """A configuration whose experiments were run.

    Attributes:
        name: What results call it.
        told: Its experiments.
    """

    name: str
    told: Sequence[Told]


def markdown(projects: Sequence[Project], command: str) -> str:
    """A page of results.

    Args:
        projects: In order.
        command: What makes the page, as it was typed.
    """
    lines = [
        "# Results of the experiments",
        "",
        f"Made by `{command}`; nothing on this page is written by hand.",
        "",
        _LEGEND,
        "",
    ]
    for project in projects:
        for facts in dict.fromkeys(tuple(told.facts.items()) for told in project.told):
            lines += [f"**{project.name}**: " + "; ".join(f"{name} {escaped(value)}" for name, value in facts), ""]
    lines += ["## What the papers claim, and what is seen here", "", *_claims(projects), ""]
    names = dict.fromkeys(told.name for project in projects for told in project.told)
    for name in names:
        found = [(project, told) for project in projects for told in project.told if told.name == name]
        lines += [f"## {found[0][1].title}", "", f"`mog experiment {name}`. {found[0][1].asks}", ""]
        for project, told in found:
            for title, rows in told.tables.items():
                lines += [f"**{project.name}: {escaped(title)}**", "", table(rows), ""]
            lines += [f"- {_sentence(claim)}" for claim in told.claims]
            lines += [""] if told.claims else []
    return "\n".join(lines).rstrip() + "\n"


def _claims(projects: Sequence[Project]) -> list[str]:
    """A row per claim, a column per project: verdicts of all its question sets, each once."""
    rows: dict[tuple[str, str], dict[str, list[str]]] = {}
    found = [(project.name, claim) for project in projects for told in project.told for claim in told.claims]
    for name, claim in found:
        said = rows.setdefault((claim["paper"], claim["claim"]), {}).setdefault(name, [])
        said.append(f"{claim['verdict']}: {claim['because']}")
    counts = Counter(claim["verdict"] for _, claim in found)
    said = [", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())) + ".", ""] if found else []
    names = [project.name for project in projects]
    texts = [
        {"paper": paper, "claim": claim, **{name: "; ".join(by_project.get(name, ())) for name in names}}
        for (paper, claim), by_project in rows.items()
    ]
    return [*said, table(texts)]


def _sentence(claim: Mapping[str, str]) -> str:
    said = {name: escaped(text) for name, text in claim.items()}
    return f"{said['paper']}: {said['claim']} **{said['verdict'].capitalize()}**: {said['because']}"


def verdicts(told: Iterable[Told]) -> list[dict[str, str]]:
    """The claims of experiments as rows: what became of each."""
    return [{"claim": c["claim"], "verdict": c["verdict"], "because": c["because"]} for t in told for c in t.claims]
