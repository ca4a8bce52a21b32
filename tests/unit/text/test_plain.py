"""Characters that nobody sees, and kana of half width, make no difference to what is found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mog_assets
from mog_assets.index.mentions.names import folded
from mog_assets.text.characters import plain
from mog_assets.text.terms import located, terms_of

TORN = [
    ("The docu\u00admen\u00adta\u00adtion", "The documentation", "en"),
    ("docu\u00ad\n  mentation", "documentation", "en"),
    ("sqlite3_\u200bbusy_\u200btimeout", "sqlite3_busy_timeout", "en"),
    ("Auf\u200clage", "Auflage", "de"),
    ("\ufeffver\u2060sion 2\u200b.0.1", "version 2.0.1", "en"),
    ("Donau\u00addampf\u00adschiff", "Donaudampfschiff", "de"),
    ("ﾊﾟｿｺﾝとｶﾞｿﾘﾝ", "パソコンとガソリン", "ja"),
]


@pytest.mark.parametrize(("text", "seen", "language"), TORN)
def test_hidden_characters_tear_no_word(text, seen, language):
    assert plain(text)[0] == seen
    assert terms_of([text], language) == terms_of([seen], language)
    assert folded(text)[0] == folded(seen)[0]


@pytest.mark.parametrize("text", ["می\u200cخواهم", "क\u094d\u200dष", "naïve café", "カタカナ", "soft"])
def test_joiners_of_a_script_and_other_characters_stay(text):
    assert plain(text)[0] == text


@given(st.text(alphabet="ab \u00ad\u200b\u200c\u2060\nｶﾞｱ漢字é"))
def test_terms_keep_their_offsets(text):
    seen, origin = plain(text)
    assert len(origin) == len(seen) + 1 and origin[-1] == len(text)
    assert all(one < other for one, other in zip(origin, origin[1:], strict=False))
    starts = located([text], "en")[0][0]
    assert all(0 <= start < len(text) and text[start] not in "\u00ad\u200b\u2060 \n" for start in starts)


TEXTS = {
    "mill.txt": "It counts. The docu\u00admen\u00adta\u00adtion of every mill is kept in the regis\u00adtry. Ask.",
    "lock.txt": "Call sqlite3_\u200bbusy_\u200btimeout before you write. The setting is in milliseconds.",
    "pc.txt": "ﾊﾟｿｺﾝの修理は二階で受け付けます。",
    "tea.txt": "Tea is served in the garden. The registry of teas is short.",
}


@pytest.fixture(scope="module")
def opened(tmp_path_factory, make_project, materialise_project):
    folder = tmp_path_factory.mktemp("hidden")
    (folder / "docs").mkdir()
    for name, text in TEXTS.items():
        (folder / "docs" / name).write_text(text, encoding="utf-8")
    made = make_project(
        folder, {"corpora": {"notes": {"path": "docs"}}, "methods": ["fused"], "levels": 2, "buckets": 2}
    )
    assert materialise_project(made.settings).failures == []
    with mog_assets.open(made.config, refresh=None) as one:
        yield one


@pytest.mark.parametrize(
    ("question", "doc"),
    [
        ('"documentation of every mill"', "mill.txt"),
        ('"docu\u00admentation of every mill"', "mill.txt"),
        ('"kept in the registry"', "mill.txt"),
        ("sqlite3_busy_timeout", "lock.txt"),
        ('"sqlite3_busy_timeout before"', "lock.txt"),
        ("パソコンの修理", "pc.txt"),
        ("「パソコンの修理」", "pc.txt"),
    ],
)
def test_what_is_seen_is_found(opened, question, doc):
    passages = opened.search(question, method="fused").passages
    assert passages[0].document == doc
    assert passages[0].text in TEXTS[doc]
    assert {passage.document for passage in passages} == {doc} or "「" not in question and '"' not in question
