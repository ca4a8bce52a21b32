"""Export for other tools: TREC runs and qrels, and tables as Parquet and CSV.

Fields of a TREC file end at white space and are compared as bytes. So in ids the percent sign and everything except
printable ASCII is percent-encoded as UTF-8; `urllib.parse.unquote` restores the id.
"""

from __future__ import annotations

import shutil
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pandas as pd

from mog_assets.evaluate.runs import read_runs
from mog_assets.questions.sets import Question
from mog_assets.resources.errors import MogError

# Writes a file at a path.
Writer = Callable[[Path], object]

# Everything printable of ASCII but the percent sign.
_PRINTABLE = string.punctuation.replace("%", "")
# A spreadsheet reads a text that starts with one of these as a formula (OWASP, CSV injection).
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\t", "\r", "\n")


def retrieval_files(
    passages: Path, per_question: Path, scores: Path, questions: Mapping[str, Sequence[Question]]
) -> dict[str, Writer]:
    """Return the files to export for retrieval.

    Args:
        passages: The table `runs.parquet`.
        per_question: The table of every measure of every question.
        scores: The table of their means.
        questions: By question set; they include the scored ones.

    Returns:
        Functions that write each file, by its path in the export: `runs/<question set>/<method>.trec` and
        `qrels/<question set>.txt`, both of documents; `passages.parquet`, `per_question.parquet`, `scores.parquet` and
        `scores.csv`.

    Raises:
        MogError: a scored question is not among the questions.
    """
    runs = read_runs(passages)
    scored = pd.read_parquet(per_question, columns=["question_set", "question"]).drop_duplicates()
    by_set = {str(name): list(part["question"]) for name, part in scored.groupby("question_set", sort=False)}
    files: dict[str, Writer] = {}
    for (name, method), part in runs.groupby(["question_set", "method"], sort=False, observed=True):
        files[f"runs/{file_name(name)}/{file_name(method)}.trec"] = partial(_write_lines, partial(trec_run, part))
    for name, ids in by_set.items():
        by_id = {q.id: q for q in questions.get(name, ())}
        if missing := [identity for identity in ids if identity not in by_id]:
            raise MogError(
                f"question set {name}: expected the {len(ids)} scored questions, but {len(missing)} no longer exist, "
                f"the first is {missing[0]!r}: run `mog run`"
            )
        members = [by_id[identity] for identity in ids]
        files[f"qrels/{file_name(name)}.txt"] = partial(_write_lines, partial(trec_qrels, members))
    tables = {"passages": passages, "per_question": per_question, "scores": scores}
    files |= {f"{name}.parquet": partial(shutil.copyfile, path) for name, path in tables.items()}
    return files | {"scores.csv": partial(write_csv, scores)}


def answer_files(answers: pd.DataFrame, per_question: Path, scores: Path) -> dict[str, Writer]:
    """Return the files to export for answers.

    Args:
        answers: All answers.
        per_question: The table of marks.
        scores: The table of their means.

    Returns:
        As in `retrieval_files`: `answers.parquet`, `answer_per_question.parquet`, `answer_scores.parquet` and
        `answer_scores.csv`.
    """
    tables = {"answer_per_question": per_question, "answer_scores": scores}
    return {
        "answers.parquet": answers.to_parquet,
        **{f"{name}.parquet": partial(shutil.copyfile, path) for name, path in tables.items()},
        "answer_scores.csv": partial(write_csv, scores),
    }


def trec_run(runs: pd.DataFrame) -> Iterator[str]:
    """Yield lines of a TREC run: question, Q0, document, rank, score, method.

    Args:
        runs: Ranked passages of one method for the questions of one set.

    Yields:
        One line for each document of a question, at the rank of its first passage; a document is `corpus/id`. Scores
        are integers that descend by 1, because TREC tools sort by score.
    """
    place = ["question", "corpus", "doc"]
    first = (
        runs.sort_values("rank", kind="stable").drop_duplicates(place).astype(dict.fromkeys([*place, "method"], str))
    )
    by_question = first.groupby("question", sort=False)["rank"]
    first = first.assign(at=by_question.cumcount() + 1, of=by_question.transform("size"))
    codes = {text: quote(text, _PRINTABLE) for name in (*place, "method") for text in first[name].unique()}
    ordered = first.sort_values(["question", "at"])[[*place, "at", "of", "method"]]
    for question, corpus, doc, at, of, method in ordered.itertuples(index=False):
        yield f"{codes[question]} Q0 {codes[corpus]}/{codes[doc]} {at} {of - at + 1} {codes[method]}"


def trec_qrels(questions: Iterable[Question]) -> Iterator[str]:
    """Yield lines of TREC qrels: question, 0, document, grade; documents with gold evidence have at least 1."""
    for question in questions:
        for (corpus, doc), grade in sorted(question.grades.items()):
            yield f"{quote(question.id, _PRINTABLE)} 0 {quote(corpus, _PRINTABLE)}/{quote(doc, _PRINTABLE)} {grade}"


def file_name(name: str) -> str:
    """Return a name percent-encoded as that of a file or folder, which `urllib.parse.unquote` undoes.

    Names of which only the case differs have different files also where disks ignore it.
    """
    escaped = f"{string.ascii_uppercase}."
    return "".join(f"%{ord(letter):02X}" if letter in escaped else quote(letter, "+") for letter in name)


def _write_lines(lines: Callable[[], Iterable[str]], path: Path) -> None:
    with path.open("w", encoding="ascii", newline="\n") as stream:
        stream.writelines(f"{line}\n" for line in lines())


def write_csv(table: Path, path: Path) -> None:
    """Write a Parquet table as CSV in UTF-8.

    A text that a spreadsheet would read as a formula, because it starts with = + - @ (also full width), a tab or a line
    break, gets a leading apostrophe; numbers stay numbers, and Parquet has every text unchanged.
    """
    frame = pd.read_parquet(table)
    for name in frame.select_dtypes(exclude="number"):
        frame[name] = frame[name].map(lambda v: f"'{v}" if isinstance(v, str) and v.startswith(_FORMULA) else v)
    frame.to_csv(path, index=False, encoding="utf-8", lineterminator="\n")
