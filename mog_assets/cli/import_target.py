"""Where `mog import` writes: names, files, and the text of mog.yaml."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mog_assets import config
from mog_assets.cli.found_questions import Questions
from mog_assets.cli.project import CorpusFiles, corpus_entry, questions_entry, written
from mog_assets.config.editing import Entry, with_entry
from mog_assets.resources.errors import ConfigError
from mog_assets.resources.printable import printable

FOLDER = "corpora"
# Splits to measure on, the first that exists.
_MEASURED = ("test", "dev", "validation", "valid", "val")


def in_order(splits: Iterable[str]) -> list[str]:
    """Splits in the order of their use: those to train on first."""
    order = ("train", *reversed(_MEASURED))
    return sorted(splits, key=lambda split: (order.index(split) if split in order else 0, split))


@dataclass(frozen=True)
class Target:
    """Where a data set goes: a configuration file, which may not exist yet, and a name.

    `corpus` names the corpus of the questions, which exists if it is not imported; `settings` are None without a file.
    """

    file: Path
    settings: config.Settings | None
    name: str
    corpus: str
    imports_corpus: bool

    @property
    def documents(self) -> Path:
        """The file of the documents."""
        return self.file.parent / FOLDER / f"{self.name}.jsonl.gz"

    @property
    def questions(self) -> Path:
        """The file of the questions."""
        return self.file.parent / f"{self.name}.questions.jsonl.gz"

    @property
    def home(self) -> Path:
        """The home folder of the project."""
        return self.settings.home if self.settings else self.file.parent / ".mog"

    @classmethod
    def of(cls, path: str | None, name: str, replace: bool, corpus: str | None = None) -> Target:
        """The target of an import.

        Raises:
            ConfigError: the name is not allowed or taken, or the configuration is not valid.
        """
        file = config.file(path)
        try:
            config.check_name(name)
        except ValueError as error:
            raise ConfigError(f"--name: expected {error}, got {printable(name)[:80]!r}") from error
        settings = config.load(file) if os.path.lexists(file) else None
        if corpus is not None and (settings is None or corpus not in settings.corpora):
            names = f" ({', '.join(settings.corpora)})" if settings else f", and {file} does not exist"
            raise ConfigError(f"--corpus: expected a corpus of the project{names}, got {printable(corpus)[:80]!r}")
        target = cls(file, settings, name, corpus or name, corpus is None)
        target.check_free(replace)
        # The place of the entries is found before the work rather than after it.
        target.text({"test": 1})
        return target

    def check_free(self, replace: bool) -> None:
        """Reject a name that is taken, and places that would be read as documents of another corpus."""
        paths = {"question_sets": self.questions} | ({"corpora": self.documents} if self.imports_corpus else {})
        for section, path in paths.items():
            taken = getattr(self.settings, section, {}).get(self.name)
            if taken is not None and taken.path != path.resolve():
                raise ConfigError(
                    f"--name: expected a name that {section} of {self.file.name} does not have yet, got {self.name!r}, "
                    f"which is at {taken.path}: choose another"
                )
            if (taken is not None or path.exists()) and not replace:
                what = f"{section}.{self.name}" if taken is not None else str(path)
                raise ConfigError(
                    f"{what}: expected none yet, found one: choose another --name, or replace it with --replace"
                )
            for other, corpus in (self.settings.corpora if self.settings else {}).items():
                if corpus.path.is_dir() and path.resolve().is_relative_to(corpus.path):
                    raise ConfigError(
                        f"{path} would be read as a document of the corpus {other!r}, which is the folder "
                        f"{corpus.path}: import into a project in another folder with --config FOLDER/mog.yaml"
                    )

    def unused(self, splits: Mapping[str, int]) -> Iterator[str]:
        """What is wrong with the splits of a question set that was in the configuration already."""
        existing = self.settings.question_sets.get(self.name) if self.settings else None
        for use in ("train", "test") if existing else ():
            if missing := [split for split in getattr(existing, use) if split not in splits]:
                yield (
                    f"question_sets.{self.name}.{use} of {self.file.name} names {missing[0]!r}, but the questions are "
                    f"of the splits {', '.join(splits)}: change it"
                )

    def text(self, splits: dict[str, int]) -> str:
        """The text of the configuration with the data set; entries that it has already stay as they are.

        Raises:
            ConfigError: it cannot be added to the text.
        """
        measured = next((s for s in _MEASURED if s in splits), list(splits)[-1])
        base = self.file.parent
        documents = CorpusFiles(self.corpus, self.documents, {}, [])
        questions = Questions(self.name, self.questions, splits, [self.corpus], measured)
        if self.settings is None:
            return written([documents], [questions], base)
        entries: list[tuple[str, Entry]] = [("question_sets", questions_entry(questions, [self.corpus], base))]
        if self.imports_corpus:
            entries.insert(0, ("corpora", corpus_entry(documents, base)))
        text = self.file.read_bytes().decode("utf-8-sig")
        for section, entry in entries:
            if self.name not in getattr(self.settings, section):
                text = with_entry(text, section, self.name, entry)
        return text
