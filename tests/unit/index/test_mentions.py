"""What documents are called, and where texts name them: against their definitions, and after any change."""

import json
import re
import shutil
import tempfile
import time
from pathlib import Path

import damage
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from incremental import IN_MEMORY, Project, encoder, nothing_is_drawn  # noqa: F401
from shared import examples

from mog_assets.build import plan
from mog_assets.build.materialising import materialise
from mog_assets.index.corpora import Corpora
from mog_assets.index.mentions.edges import ALWAYS, Mentions
from mog_assets.index.mentions.matching import Matcher, search_bucket
from mog_assets.index.mentions.names import MOST_WORDS, Name, folded, names_of
from mog_assets.search.relations import Edges

# Folding

HOSTILE = [
    "",
    "\0",
    "İstanbul ﬁne Ǆ",
    "e\u0301a\u0301",
    "\ud800 a",
    "ß ẞ",
    "١٢٣",
    "a\u200bb",
    "漢字 かな",
    "A" * 5000,
    "…—’",
]


@given(st.one_of(st.text(max_size=60), st.sampled_from(HOSTILE)))
@settings(deadline=None)
def test_words_stay_at_their_offsets_whatever_the_text_is(text):
    plain, offsets = folded(text)
    assert len(plain) == len(offsets) and plain.startswith(" ") and plain.endswith(" ")
    assert "  " not in plain.strip(" ") and (np.diff(offsets) > 0).all()
    for place, character in enumerate(plain):
        # A mark of half width is part of the kana before it.
        if character != " " and not "\uff66" <= (own := text[offsets[place]]) <= "\uff9d":
            assert own.isalnum() and folded(own)[0] == f" {character} "


# Names


def plain_names(title, text="", **metadata):
    return [name.folded for name in names_of(title, text, json.dumps(metadata))]


def test_a_document_is_called_by_its_title_its_abbreviation_its_heading_and_its_aliases():
    assert plain_names("Amyotrophic lateral sclerosis (ALS)") == [
        "amyotrophic lateral sclerosis als",
        "amyotrophic lateral sclerosis",
        "als",
    ]
    # What tells two documents of one name apart is no name.
    assert plain_names("Mercury (planet)") == ["mercury planet", "mercury"]
    assert plain_names("notes", "# The Great Bustard #\nIt is heavy.") == ["notes", "the great bustard"]
    assert plain_names("", aliases=["Otis tarda", 7], synonyms="bustard, trappe") == ["otis tarda", "bustard", "trappe"]


@pytest.mark.parametrize(
    "title", ["", "  ", "ab", "12 34", "…", "a " * (MOST_WORDS + 1), "x" * 300, "\0\0\0", "(ALS", "()()()"]
)
def test_what_is_too_short_too_long_or_without_letters_is_no_name(title):
    assert all(len(name) >= 3 for name in plain_names(title))
    assert plain_names(title) in ([], ["als"])


# Matching

WORDS = st.sampled_from(["a", "B", "c1", "é"])
TEXTS = st.lists(st.tuples(WORDS, st.sampled_from([" ", "-", ", "])), max_size=12).map(
    lambda parts: "".join(word + gap for word, gap in parts)
)
NAMES = st.lists(WORDS.map(str.lower), min_size=1, max_size=3).map(" ".join)


def found_in(text, names):
    """Every place of every name, by definition: the words of the name one after the other."""
    plain, offsets = folded(text)
    words, starts, at = plain.split(), [], 1
    for word in words:
        starts.append((int(offsets[at]), int(offsets[at + len(word) - 1]) + 1))
        at += len(word) + 1
    return sorted(
        (starts[i][0], starts[i + len(name.split()) - 1][1], name)
        for name in names
        for i in range(len(words) - len(name.split()) + 1)
        if words[i : i + len(name.split())] == name.split()
    )


def table_of(names):
    made = sorted({Name(name, False) for name in names}, key=lambda name: name.digest)
    return {
        "name": [name.folded for name in made],
        "digest": pa.array([name.digest for name in made], pa.uint64()),
        "capitals": pa.array([name.capitals for name in made], pa.bool_()),
    }


def matcher_of(names):
    columns = table_of(names)
    return Matcher(columns["name"], columns["digest"].to_numpy(), np.zeros(len(columns["name"]), bool))


def places(table, names):
    of = {Name(name, False).digest: name for name in names}
    rows = zip(*(table[c].to_pylist() for c in ("document", "start", "end", "name")), strict=True)
    return [(document, start, end, of[name]) for document, start, end, name in rows]


@given(st.lists(TEXTS, max_size=3), st.sets(NAMES, max_size=6))
def test_every_place_of_every_name_is_found(texts, names):
    found = places(matcher_of(names).find(texts, list(range(len(texts)))), names)
    wanted = [(i, *place) for i, text in enumerate(texts) for place in found_in(text, names)]
    assert sorted(found) == sorted(wanted)


def test_a_name_in_capitals_means_only_what_is_written_in_capitals():
    aids = Name("aids", True)
    found = Matcher([aids.folded], np.array([aids.digest], np.uint64), np.array([True])).find(
        ["Hearing aids do not cure AIDS."], [0]
    )
    assert found["start"].to_pylist() == [25]


BUCKETS = st.dictionaries(st.integers(0, 5), TEXTS, max_size=4)


@given(st.lists(st.tuples(BUCKETS, st.sets(NAMES, max_size=5)), min_size=2, max_size=4))
# Two documents of the same text.
@example([({0: "moor hen", 1: "moor hen"}, {"moor hen"}), ({1: "moor hen", 3: "moor hen"}, {"moor hen"})])
@settings(deadline=None, max_examples=examples(60))
def test_what_is_searched_for_new_names_alone_is_byte_for_byte_what_is_searched_anew(states):
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        folder, before, known = Path(name), None, set()
        for step, (texts, names) in enumerate(states):
            documents = folder / f"documents_{step}"
            # Of the text alone, as those of documents are: some are there several times.
            keys = [str(hash(text)) for _, text in sorted(texts.items())]
            rows = [text for _, text in sorted(texts.items())]
            pq.write_table(
                pa.table({"text": pa.array(rows, pa.string()), "sha256": pa.array(keys, pa.string())}), documents
            )
            every, added, removed = (folder / f"{what}_{step}" for what in ("names", "added", "removed"))
            pq.write_table(pa.table(table_of(names)), every)
            pq.write_table(pa.table(table_of(names - known)), added)
            gone = np.array(sorted(Name(name, False).digest for name in known - names), np.uint64)
            with removed.open("wb") as stream:
                np.save(stream, gone)
            anew, kept = folder / f"anew_{step}", folder / f"kept_{step}"
            search_bucket(str(documents), str(every), None, None, str(anew))
            again = (str(added), str(removed)) if before else (None, None)
            made = search_bucket(str(documents), str(every), *again, str(kept), str(before) if before else None)
            assert anew.read_bytes() == kept.read_bytes()
            assert made["searched"] <= len(rows)
            before, known = kept, set(names)


# Edges


def opened(project, corpora=("file", "folder")):
    corpora = Corpora.open(project.tools.store.read, project.settings, list(corpora))
    return corpora, Mentions.open(corpora)


def edges(project, corpora=("file", "folder")):
    """Edges as (document, what stands there, named document), with their weights."""
    of, found = opened(project, corpora)
    texts, names = of.texts(range(len(of.layout.documents))), of.layout.documents
    columns = (found.document, found.start, found.end, found.target, found.weight)
    return {
        (names[d], texts[d][1][a:b], names[t]): float(w)
        for d, a, b, t, w in zip(*(column.tolist() for column in columns), strict=True)
    }


@pytest.fixture
def project(encoder):
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        yield Project(Path(name), encoder)


def test_texts_name_documents_of_any_corpus_and_not_themselves(project):
    project.put("file", "a", "The great bustard is heavy. See also the bustard.", title="Great bustard")
    project.put("file", "b", "Bustard: a family of birds, like the GREAT BUSTARD.", title="Bustard")
    project.put("folder", "c", "# Marsh\n\nA great bustard does not wade; a Bustard never does.")
    project.run()
    found = edges(project)
    # A name within a longer one is none: `bustard` in `great bustard`.
    assert set(found) == {
        ("a", "bustard", "b"),
        ("b", "GREAT BUSTARD", "a"),
        ("c.md", "great bustard", "a"),
        ("c.md", "Bustard", "b"),
    }
    # Each is named by two of three documents: one step of two.
    assert set(found.values()) == {0.5}
    # Of other corpora there are only those that are searched.
    assert set(edges(project, ["folder"])) == set() and set(edges(project, ["file"])) == {
        ("a", "bustard", "b"),
        ("b", "GREAT BUSTARD", "a"),
    }


def test_names_of_several_documents_and_everyday_names_count_less_or_nothing(project):
    project.put("file", "one", "Tall.", title="Heron")
    project.put("file", "two", "Grey.", title="Heron")
    project.put("file", "rare", "It is a bird.", title="Night heron")
    project.put("file", "usual", "Wet.", title="Water")
    for number in range(3 * ALWAYS):
        project.put("folder", f"d{number:02}", f"# Day {number}\n\nWater." + (" A heron." if number == 7 else ""))
    project.run()
    found = edges(project)
    assert {key[1] for key in found} == {"heron"}
    # Two documents have the name.
    assert found == {("d07.md", "heron", "one"): 0.5, ("d07.md", "heron", "two"): 0.5}


def test_edges_of_pieces_are_those_that_begin_in_them(project):
    project.put(
        "file", "a", "One sentence that is long enough to be a piece by itself. " * 3 + "The otter.", title="Marsh"
    )
    project.put("file", "b", "It swims.", title="Otter")
    project.put("folder", "c", "Nothing.")
    project.run()
    of, found = opened(project)
    every = np.arange(of.layout.count(1))
    row, target, weight = Edges(*found.of_pieces).of_pieces(every)
    assert len(row) == 1 and of.layout.documents[target[0]] == "b" and weight[0] == 1
    start, end = of.layout.spans[row[0]]
    assert start <= found.start[0] < end
    assert [len(column) for column in Edges(*found.of_pieces).of_pieces(every[:0])] == [0, 0, 0]


def test_an_edit_searches_its_text_and_a_new_name_is_searched_for_alone(project):
    for name, text in (("a", "An otter."), ("b", "A heron."), ("c", "A pike.")):
        project.put("file", name, text, title=f"Note {name}")
    project.put("folder", "d", "Nothing.")
    first = project.run()["mentions"]
    assert first == {"texts searched for all names": 4, "names searched for in other texts": 0}
    project.put("file", "a", "Two otters.", title="Note a")
    assert project.run()["mentions"] == {"texts searched for all names": 1, "names searched for in other texts": 0}
    project.put("file", "e", "Grey.", title="Heron")
    again = project.run()["mentions"]
    assert again == {"texts searched for all names": 1, "names searched for in other texts": 2}
    assert ("b", "heron", "e") in edges(project)


def updated(project):
    """Bring names, mentions and what they are read with up to date, and nothing else."""
    recipes = plan.graph(project.settings)
    for key in plan.needed(recipes, ["mentions", "chunks/level_1"]):
        for corpus in project.settings.corpora if recipes[key].partitioned else [None]:
            materialise(recipes[key], corpus, project.tools, recipes)


def assert_those_of_a_rebuild(project):
    """Names and mentions are, byte for byte, what another home gets from nothing."""
    other = Project(project.folder, project.encoder, "rebuilt", **project.options)
    shutil.rmtree(other.settings.home, ignore_errors=True)
    updated(other)
    for asset, corpus in (("names", None), ("mentions", "file"), ("mentions", "folder")):
        assert project.files(asset, corpus) == other.files(asset, corpus)
        assert project.stored(asset, corpus).manifest.counts == other.stored(asset, corpus).manifest.counts
        assert project.tools.store.verify(project.stored(asset, corpus)) == []


def test_a_name_that_came_after_another_one_in_the_same_process_is_searched_for(project):
    project.put("file", "a", "An otter, a heron and a pike.", title="Marsh")
    project.put("folder", "b", "Nothing.")
    updated(project)
    for title in ("Otter", "Heron", "Pike"):
        project.put("file", title, "Grey.", title=title)
        updated(project)
        assert ("a", title.lower(), title) in edges(project)


def test_aliases_and_headings_alone_change_names_as_a_build_from_nothing_has_them(project):
    project.put("file", "a", "Trappen are heavy. The great bustard is a bustard.", title="Birds")
    project.put("file", "b", "It walks.", title="Otis tarda")
    project.put("folder", "c", "# Bustards\n\nTrappen, again.")
    updated(project)
    assert_those_of_a_rebuild(project)
    for aliases in (["Trappen", "Great bustard"], ["Great bustard"], []):
        project.put("file", "b", "It walks.", title="Otis tarda", metadata={"aliases": aliases})
        updated(project)
        # `Bustards` is the heading of another document: `bustard` is no name.
        named = {("a", alias.lower(), "b") for alias in aliases}
        found = {(document, place.lower(), target) for document, place, target in edges(project)}
        assert named <= found and len(found) == len(aliases) + ("Trappen" in aliases)
        assert_those_of_a_rebuild(project)
    project.put("folder", "c", "# Great bustard\n\nTrappen, again.")
    updated(project)
    assert set(edges(project)) == {("a", "great bustard", "c.md")}
    assert_those_of_a_rebuild(project)


# Each file and each kind of damage once.
@pytest.mark.parametrize(
    ("harm", "asset", "name"),
    [(damage.flip, "names", "distinct"), (damage.truncate, "names", "names_file"), (damage.flip, "mentions", "bucket")]
    + [(damage.delete, "mentions", "searched")],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_damaged_files_are_not_read_for_what_is_made_next(project, harm, asset, name):
    """With an edit at the same time, so that rows of the damaged file would be kept."""
    for document, text in (("a", "An otter."), ("b", "A heron."), ("c", "An otter and a heron.")):
        project.put("file", document, text, title=f"Note {document}")
    project.put("file", "otter", "It swims.", title="Otter")
    project.put("folder", "d", "# Day\n\nThe otter.")
    updated(project)
    stored = project.stored(asset, "file" if asset == "mentions" else None)
    for logical in [own for own in stored.manifest.files if own.startswith(name)]:
        harm(stored.path(logical))
    project.put("file", "heron", "It stands.", title="Heron")
    updated(project)
    assert {("b", "heron", "heron"), ("c", "otter", "otter"), ("d.md", "otter", "otter")} <= set(edges(project))
    assert_those_of_a_rebuild(project)


def seconds(work):
    """CPU time: others use this machine, too."""
    started = time.process_time()
    work()
    return time.process_time() - started


SPACES = " " * 200_000


@pytest.mark.parametrize(
    ("title", "text", "metadata"),
    [
        ("t", f"# x{SPACES}y", "{}"),
        ("t", f"#{SPACES}x", "{}"),
        ("t", f"# x {'# ' * 100_000}y", "{}"),
        (f"x {'( ' * 100_000})", "", "{}"),
        (f"x{SPACES}(y", "", "{}"),
        ("x" * 5_000_000, "# " + "x" * 5_000_000, "{}"),
        ("t", "", json.dumps({"aliases": "a b c," * 200_000})),
        ("t", "", '{"aliases": ' + "[" * 100_000 + "]" * 100_000 + "}"),
        ("t", "", '{"n": "' + "x" * 5_000_000 + '"}'),
    ],
)
def test_names_of_hostile_documents_are_short_and_read_in_time(title, text, metadata):
    found = []
    assert seconds(lambda: found.extend(names_of(title, text, metadata))) < 1
    assert all(3 <= len(name.folded) <= 200 and name.folded == name.folded.strip() for name in found)


@given(
    st.text(max_size=40),
    st.sampled_from(["", " ", "#", " #", " ## ", "\t"]),
    st.sampled_from(["", "\n", "\nx", "\r\n"]),
)
@settings(deadline=None)
def test_a_heading_is_what_an_expression_for_the_whole_line_says(name, end, rest):
    text = f"# {name}{end}{rest}"
    known = re.match(r"\s{0,3}#\s+(?P<name>[^\n]{1,200}?)\s*#*\s*(?:\n|$)", text)
    wanted = names_of("", "", json.dumps({"aliases": [known["name"]]})) if known else []
    assert names_of("", text, "") == wanted


def bulk(count):
    """Names and a text that grows with a number: what is quadratic takes a hundred times as long for ten times."""
    yield ["otter"], "otter " * count
    yield ["otter otter"], "otter " * count
    yield [" ".join(["aaa"] * words) for words in range(1, MOST_WORDS + 1)], "aaa " * (count // 10)
    yield ["x" * 150], "x" * 5 * count
    yield ["otter"], " " * 5 * count
    yield ["aaa " * 11 + "b"], "aaa " * count
    yield ["שלום עולם"], "שלום עולם. \u202e" * (count // 5)


@pytest.mark.parametrize("case", range(7))
def test_long_texts_take_a_time_that_grows_as_they_do(case):
    def search(count):
        names, text = list(bulk(count))[case]
        matcher = matcher_of(names)
        return seconds(lambda: matcher.find([text], [0]))

    search(1000)
    # Linear is ten times as long; half a second more for a machine that is busy.
    assert search(50_000) < 30 * search(5_000) + 0.5


def test_one_title_of_many_documents_is_no_mention_and_others_stay(project):
    lines = [{"id": f"d{n}", "title": "Otter", "text": f"An otter, number {n}."} for n in range(2000)]
    lines += [{"id": "pike", "title": "Pike", "text": "It waits for an otter."}]
    lines += [{"id": "say", "title": "", "text": "A pike. " + "otter " * 20_000}]
    project.documents["file"] = {line.pop("id"): {**line, "metadata": {}} for line in lines}
    project.put("folder", "d", "Nothing.")
    updated(project)
    assert set(edges(project)) == {("say", "pike", "pike")}


def test_names_of_any_characters_are_found_or_left_out_and_nothing_ends(project):
    titles = {
        "nul": "o\0tter\x01s",
        "expression": "(a+)+$ [otter]",
        "right": "\u202eשלום עולם",
        "none": "",
        "blank": "\u200b \u00a0",
        "self": "Selfish",
        "long": "word " * 50_000,
        "signs": "\x07\x08\x1b[31m",
        "wide": "ＯＴＴＥＲ stones",
    }
    for name, title in titles.items():
        project.put("file", name, f"Selfish. {title[:100]} and otter stones; selfish.", title=title)
    # At the end of a long line.
    project.put("folder", "line", "# Line\n\n" + "selfish " * 1000 + "x" * 100_000 + " שלום עולם")
    updated(project)
    found = edges(project)
    assert ("line.md", "שלום עולם", "right") in found
    assert ("expression", "otter stones", "wide") in found
    assert not any(document == "self" and target == "self" for document, _, target in found)
    assert_those_of_a_rebuild(project)
