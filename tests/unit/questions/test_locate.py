"""Quotes are found where they were copied from, and only there."""

import time
import unicodedata

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from shared import examples

from mog_assets.questions.locate import LONG, MOST_PARTS, MOST_PLACES, Quote, fold, locate

HEART = ("medicine", "heart")
TEXTS = {
    HEART: "The heart pumps blood. Its beats are counted: 72 a minute, 1.5 l each. The heart never rests.",
    (
        "medicine",
        "pain",
    ): "Severe pain of the ﬁnal phase was hospi\u00adtal treated with “aspirin” – twice dai-\nly for a year.",
    ("art", "heart"): "The heart of the matter is art; a therapist knows cafés, and 15 mg is a dose.",
}
STORY = (
    "The committee met on the first Monday of every month in the old town hall. Nobody remembered who had chosen the "
    "day. Its secretary, a retired surveyor, wrote down what was said in a hand that only he could read, and when he "
    "died in 1911 the books were put away in a cupboard under the stairs."
)


def found(quote, texts=TEXTS):
    """(document, text, how) of every place of a quote."""
    quote = Quote(quote) if isinstance(quote, str) else quote
    (located,) = locate([quote], texts)
    assert bool(located.places) != bool(located.problem)
    return [(p.doc, texts[p.corpus, p.doc][p.start : p.end], p.how) for p in located.places]


def problem(quote, texts=TEXTS):
    (located,) = locate([Quote(quote) if isinstance(quote, str) else quote], texts)
    assert located.places == ()
    return located.problem


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("its BEATS are counted", "Its beats are counted"),
        ("pain of the final phase", "pain of the ﬁnal phase"),
        ("was hospital treated", "was hospi\u00adtal treated"),
        ('with "aspirin"', "with “aspirin”"),
        ('"aspirin" - twice', "“aspirin” – twice"),
        ("twice daily for a year.", "twice dai-\nly for a year."),
        ("Ｉｔｓ ｂｅａｔｓ are", "Its beats are"),
        ("pumps blood; its beats…", "pumps blood. Its beats"),
        ("cafe\u0301s and", "cafés, and"),
    ],
)
def test_case_blanks_punctuation_and_compatible_characters_make_no_difference(quote, text):
    assert [(t, how) for _, t, how in found(quote)] == [(text, "normalised")]


def test_composed_and_decomposed_quotes_are_both_exact():
    assert found("cafe\u0301s") == found("cafés") == [("heart", "cafés", "exact")]


def test_exact_places_hide_normalised_ones():
    texts = {("c", "1"): "US troops told us so.", ("c", "2"): "Tell us."}
    assert found("US", texts) == [("1", "US", "exact")]
    assert [doc for doc, _, _ in found("Us", texts)] == ["1", "1", "2"]


def test_blanks_around_a_quote_are_exact_if_the_document_has_them_and_left_out_if_not():
    assert found(" 72 a ") == [("heart", " 72 a ", "exact")]
    assert found("\n72 a\n") == [("heart", "72 a", "exact")]


def test_every_place_is_found_in_the_order_of_the_documents():
    assert [doc for doc, _, _ in found("The heart")] == ["heart", "heart", "heart"]
    places = locate([Quote("The heart")], TEXTS)[0].places
    assert [(p.corpus, p.start) for p in places] == [("medicine", 0), ("medicine", 71), ("art", 0)]


def test_corpus_and_document_narrow_the_search():
    assert len(found(Quote("The heart", corpus="medicine"))) == 2
    assert len(found(Quote("The heart", doc="heart"))) == 3
    assert len(found(Quote("The heart", corpus="art", doc="heart"))) == 1
    assert 'document "pain" of corpus "medicine"' in problem(Quote("The heart", corpus="medicine", doc="pain"))
    assert problem(Quote("The heart", doc="unknown"))


@pytest.mark.parametrize("quote", ["eart", "hear", "ea", "5", "1", "7", "mino", "rapist", "the rapist", "cafe", "T"])
def test_part_of_a_word_is_not_found_for_a_short_quote(quote):
    assert "whole words" in problem(quote)


@pytest.mark.parametrize(("quote", "number"), [("art", 1), ("heart", 3), ("72", 1), ("1.5", 1), ("15", 1), ("a", 4)])
def test_whole_word_or_number_is_found(quote, number):
    assert len(found(quote)) == number


def test_digits_that_are_apart_are_not_one_number():
    texts = {("c", "1"): "It weighs 1.5 kg, or 12 000 grains."}
    assert problem("15 kg", texts)
    assert problem("12000", texts)
    assert found("12,000 grains", texts) == [("1", "12 000 grains", "normalised")]
    assert found("1.5kg", texts) == [("1", "1.5 kg", "normalised")]


def test_words_of_scripts_without_blanks_are_found():
    texts = {("c", "1"): "糖尿病は血糖値が高くなる病気です。심장은 뛴다. หัวใจเต้น"}
    assert found("血糖値", texts) == [("1", "血糖値", "exact")]
    assert found("심장", texts) == [("1", "심장", "exact")]
    assert found("血糖値が\n高く", texts) == [("1", "血糖値が高く", "normalised")]


def test_digits_of_scripts_without_blanks_are_one_number():
    texts = {("c", "1"): "ปี๒๕๖๐ มี ๑ ๕"}
    assert found("๒๕๖๐", texts) == [("1", "๒๕๖๐", "exact")]
    assert found("2560", texts) == [("1", "๒๕๖๐", "normalised")]
    assert problem("๒๕", texts) and problem("๑๕", texts)


def test_more_places_than_can_be_meant_are_a_problem():
    texts = {("c", str(n)): "Ask your doctor. It is so." for n in range(MOST_PLACES)}
    assert len(found("Ask your doctor", texts)) == MOST_PLACES
    texts["c", "one more"] = "Ask your doctor!"
    message = problem("Ask your doctor", texts)
    assert "stands at more" in message and "name the document" in message and "prefix" in message
    assert len(found(Quote("Ask your doctor", doc="3"), texts)) == 1


def test_prefix_and_suffix_choose_a_place():
    text = "In 1998 he came. In 1998 he left. Since 1998, nothing."
    texts = {("c", "1"): text}
    for quote, start in (
        (Quote("1998", prefix="came. In "), 20),
        (Quote("1998", suffix=" he came"), 3),
        (Quote("1998", prefix="SINCE", suffix="nothing"), 40),
        (Quote("1998", prefix="Sinse", suffix=", nothing"), 40),
    ):
        assert [p.start for p in locate([quote], texts)[0].places] == [start]
    # Two places have this suffix.
    assert [p.start for p in locate([Quote("1998", suffix=" he")], texts)[0].places] == [3, 20]


def test_prefix_and_suffix_choose_among_more_places_than_can_be_meant():
    text = " ".join(f"Line {n} says yes to all {n}." for n in range(500))
    quote = Quote("yes", prefix="Line 321 says ", suffix=" to all 321.")
    ((place,),) = [located.places for located in locate([quote], {("c", "1"): text})]
    assert text[: place.start].endswith("Line 321 says ")


def test_prefix_and_suffix_fix_a_place_within_a_word():
    texts = {("c", "1"): "It was a habit of the 1990s, when all of us were young."}
    assert problem("1990", texts)
    assert found(Quote("1990", prefix="a habit of the ", suffix="s, when all"), texts) == [("1", "1990", "exact")]


def test_changed_quote_is_found_with_its_ends():
    texts = {**TEXTS, ("c", "story"): STORY}
    quote = "Its secretery, a retired surveyer, wrote down what was said in a hand only he could raed,"
    (located,) = locate([Quote(quote)], texts)
    (place,) = located.places
    assert STORY[place.start : place.end] == (
        "Its secretary, a retired surveyor, wrote down what was said in a hand that only he could read,"
    )
    assert place.how == "fuzzy" and 0.85 <= place.score < 1


@pytest.mark.parametrize(
    "quote", ["Nxbody remembered who had chosen the day", "Nobody remembered who had chosen the dxy"]
)
def test_changed_first_or_last_word_is_part_of_the_place(quote):
    assert found(quote, {("c", "1"): STORY}) == [("1", "Nobody remembered who had chosen the day", "fuzzy")]


def test_changed_quote_with_more_words_than_the_document_begins_or_ends_with_is_found():
    quote = f"Well then. {STORY} So be it"
    assert found(quote, {("c", "1"): STORY, ("c", "2"): "So be it."}) == [("1", STORY[:-1], "fuzzy")]


@pytest.mark.parametrize("before", range(0, 48, 12))
def test_changed_number_at_an_end_leaves_no_blank_in_the_place(before):
    text = "Of course the long text here now costs 5"
    texts = {("c", "1"): f"{' '.join(STORY.split()[:before])} 99999 {text} 9999999 and 7 8888888 more"}
    assert found(text.replace("long", "lomg") + " 9", texts) == [("1", text, "fuzzy")]
    assert found("9 " + text.replace("long", "lomg"), texts) == [("1", text, "fuzzy")]


def test_title_that_the_first_sentence_repeats_is_not_part_of_the_place():
    text = "Long QT syndrome of childhood\n\nLong QT syndrome of childhood is a rare disorder of the heart's rhythm."
    quote = "Long QT syndrme of childhood is a rare disorder of the hearts rythm"
    assert found(quote, {("c", "1"): text}) == [("1", text[31:-1], "fuzzy")]


def test_short_quote_is_never_found_by_similarity():
    assert "whole words" in problem("Tho haert pumps")


def test_other_text_is_not_found_and_the_nearest_is_named():
    texts = {**TEXTS, ("c", "story"): STORY}
    assert "which is not there" in problem("Quite another matter, of which no document knows a thing.", texts)
    message = problem("Nobody remembered the town, its people or who had chosen the colour of the flag", texts)
    assert "c/story" in message and "similarity" in message


def test_text_of_many_documents_with_small_changes_is_a_problem():
    texts = {
        ("c", str(n)): f"Cases of disorder {n} are inherited from both parents in nearly all families."
        for n in range(40)
    }
    message = problem("Cases of disorder x are inherited fron both parents in nearly all familes", texts)
    assert "no more than 20 places" in message and "a little changed" in message


def test_parts_around_an_ellipsis_are_places_of_their_own():
    for dots in ("...", " … ", " [...] ", " [… ] ", "(...)", " . . . ", "....."):
        quote = f"The committee met{dots}wrote down what was said{dots}under the stairs."
        assert [text for _, text, _ in found(quote, {("c", "1"): STORY})] == [
            "The committee met",
            "wrote down what was said",
            "under the stairs.",
        ]


def test_parts_stand_in_order_in_one_document():
    texts = {("c", "1"): STORY, ("c", "2"): "Under the stairs the committee met."}
    assert problem("under the stairs ... the committee met on", {("c", "1"): STORY})
    assert [doc for doc, _, _ in found("Under the stairs ... committee met", texts)] == ["2", "2"]
    assert problem("The committee met ... whales", texts)


def test_shortest_way_through_the_parts_is_taken():
    texts = {("c", "1"): "One two. One three. Four two. Five one."}
    places = locate([Quote("one … four")], texts)[0].places
    assert [(p.start, p.end) for p in places] == [(9, 12), (20, 24)]


def test_ellipsis_of_the_document_is_text():
    texts = {("c", "1"): "He said ... nothing at all."}
    assert found("said ... nothing", texts) == [("1", "said ... nothing", "exact")]
    assert found("said […] nothing", texts) == [("1", "said ... nothing", "normalised")]


def test_changed_parts_are_found():
    quote = "Nobody remembred who had chosen the day ... the books were put awey in a cupboard"
    assert [how for _, _, how in found(quote, {("c", "1"): STORY})] == ["fuzzy", "fuzzy"]


def test_too_many_parts_are_a_problem():
    assert f"at most {MOST_PARTS} parts" in problem(" ... ".join(["heart"] * 1_000))
    assert "parts" in problem("x..." * 1_000_000)


def test_changed_table_of_contents_is_found_as_a_whole():
    table = "\n".join(f"Chapter {n} about matter {n * n} ........ {n * 7}" for n in range(1, 40))
    assert found(table.replace("matter 25 ", "mattre 25 "), {("c", "1"): f"{STORY}\n{table}"}) == [
        ("1", table, "fuzzy")
    ]


@pytest.mark.parametrize("quote", ["", " \n\t", "...", "«»—!?", "\u00ad\u200b\ufeff", "(.*)[]\\", "\0"])
def test_quote_without_letters_and_digits_is_a_problem(quote):
    assert "expected letters or digits" in problem(quote)


@pytest.mark.parametrize("quote", ["a" + "\u0301\u0316" * 100_000, "\u0316" * 1_000])
def test_heap_of_combining_characters_is_a_problem(quote):
    assert "combining characters" in problem(quote)


@pytest.mark.parametrize(
    "quote",
    [
        "heart \ud800",
        "^The heart$.*" * 10,
        "\u202eheart of darkness and of light",
        "x" * 5_000_000,
        "the heart never rests " * 200_000,
        "\u0301\u0302\u0303",
    ],
    ids=lambda quote: repr(quote[:16]),
)
def test_hostile_quote_is_a_problem_that_can_be_printed(quote):
    message = problem(quote)
    assert message.encode().decode() == message and message.isprintable() and len(message) < 500


@pytest.mark.parametrize(
    "quote",
    ["a", "a " * 20, "a " * 100_000, "b" * 100_000, "a " * 20_000 + "b b" * 9_000],
    ids=lambda quote: f"{len(quote)} {quote[:3]}",
)
def test_repeated_text_takes_no_work_that_grows_with_its_square(quote):
    texts = {("c", "1"): "a " * 200_000, ("c", "2"): "b" * 200_000}
    assert problem(quote, texts)


def test_very_long_quote_that_differs_at_its_end_takes_no_work_that_grows_with_its_square():
    begin = time.process_time()
    assert problem("a " * 500_000 + "b", {("c", "1"): "a " * 2_000_000})
    assert time.process_time() - begin < 20


def test_short_quote_that_millions_of_words_contain_is_soon_told():
    begin = time.process_time()
    assert "whole words" in problem("e", {("c", "1"): "e" * 400_000, ("c", "2"): "the " * 200_000})
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(("quote", "text"), [("e-mail", "email"), ("U.S.A.", "USA"), ("email", "e-mail")])
def test_short_quote_with_other_punctuation_is_found_among_many_documents(quote, text):
    many = {("c", str(n)): f"Of the mail of a day, parcel {n} was sent, e and u and s." for n in range(40)}
    assert found(quote, many | {("c", "it"): f"They write {text} there."}) == [("it", text, "normalised")]


def test_quote_whose_prefix_is_that_of_another_document_is_found_among_many():
    many = {("c", str(n)): f"Parcel {n} of {n + 100} and {n + 200} went to {n + 300} by {n + 400}." for n in range(40)}
    quote = Quote("blue heron", prefix=many["c", "3"])
    assert found(quote, many | {("c", "it"): "They saw a blue heron there."}) == [("it", "blue heron", "exact")]


def test_no_documents_and_documents_without_letters_hold_no_quote():
    assert problem("heart", {})
    assert problem("heart", {("c", "1"): "", ("c", "2"): "...", ("c", "3"): "\0"})
    told = []
    assert locate([], TEXTS, told.append) == told and len(locate([Quote("heart"), Quote("")], TEXTS, told.append)) == 2
    assert told == [1, 1]


def test_place_does_not_cross_documents():
    assert problem(
        "one two three four five six seven", {("c", "1"): "one two three", ("c", "2"): "four five six seven"}
    )


alphabet = st.one_of(
    st.sampled_from("abcdeEéßﬁ½²İςΣ1230 \n.,-—'“”…\u00ad\u200b\u0301\u0316糖は심عא😀𝒜"),
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
)
documents = st.lists(
    st.text(alphabet, min_size=60, max_size=120).map(lambda t: unicodedata.normalize("NFC", t)), min_size=1, max_size=4
)


@settings(max_examples=examples(150))
@given(documents, st.data())
def test_quote_cut_from_a_document_is_found_there(texts, data):
    number = data.draw(st.integers(0, len(texts) - 1))
    size = len(texts[number])
    start, end = data.draw(st.integers(0, size // 3)), data.draw(st.integers(2 * size // 3, size))
    quote = texts[number][start:end]
    assume(len(fold(quote)) >= LONG)
    (located,) = locate([Quote(quote)], {("c", str(i)): text for i, text in enumerate(texts)})
    assume("places" not in located.problem)
    assert (str(number), start, end, "exact") in [(p.doc, p.start, p.end, p.how) for p in located.places]


words = st.lists(st.text("abcdeéßﬁσ12糖", min_size=1, max_size=6), min_size=1, max_size=30)
between = st.sampled_from([" ", "\n", "  ", " - ", "; ", " “", "” ", " — ", "\u00a0", "!? "])


@settings(max_examples=examples(150))
@given(words, words, words, st.data())
def test_quote_with_other_case_blanks_and_punctuation_is_found_there(before, quoted, after, data):
    def joined(parts):
        return "".join(part + data.draw(between) for part in parts)

    head, middle, tail = joined(before), joined(quoted), joined(after)
    texts = {("c", "1"): head + middle + tail, ("c", "2"): "Something else."}
    quote = data.draw(st.sampled_from([str.upper, str.lower, str.swapcase, str.title]))(joined(quoted))
    (located,) = locate([Quote(quote)], texts)
    assume("places" not in located.problem)
    assert {fold(texts[p.corpus, p.doc][p.start : p.end]) for p in located.places} == {fold(quote)}
    if not any(p.how == "exact" for p in located.places):
        assert any(
            p.start <= len(head) and p.end >= len(head) + len(middle.rstrip(" \n\u00a0-—;!?“”")) for p in located.places
        )


@settings(max_examples=examples(100))
@given(
    st.lists(st.text(max_size=60), max_size=4),
    st.lists(st.builds(Quote, st.text(max_size=60), prefix=st.text(max_size=9))),
)
def test_whatever_comes_has_places_within_texts_or_a_problem(texts, quotes):
    named = {("c", str(i)): text for i, text in enumerate(texts)}
    located = locate(quotes, named)
    assert located == locate(quotes, named)
    for result in located:
        assert bool(result.places) != bool(result.problem)
        for place in result.places:
            assert 0 <= place.start < place.end <= len(named[place.corpus, place.doc]) and 0 <= place.score <= 1
