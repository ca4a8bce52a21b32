"""No piece but the last ends on a heading or on a term that is defined below it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mog_assets.text.chunkers import paragraphs, sentences
from mog_assets.text.cuts import led, spans_to

PROSE = "When there are more loose objects than this, they are packed. Unreachable ones stay. "


@pytest.mark.parametrize(
    "head",
    [
        # A heading between paragraphs; two of them; what stands above a list.
        "\n\ngc.reflogExpireUnreachable\n\n",
        "\n\n## Configuration\n\n### gc.auto\n\n",
        "\n\nExamples:\n\n",
        # Terms of a definition list, each on a line of its own, and other scripts.
        "\n--num-callers=<number> [default: 12]\n",
        "\n-n\n--no-stat\n",
        "\n\n設定の変更\n\n",
        "\n\nФайлы настроек\n",
    ],
)
@pytest.mark.parametrize("chunker", [paragraphs, sentences])
def test_a_heading_goes_to_the_piece_below_it(head, chunker):
    lines, moved = tuple(line for line in head.split("\n") if line), 0
    for chars in range(120, 700, 20):
        text = PROSE * 3 + head + PROSE * 4 + head + PROSE * 2
        before = chunker(text, chars)
        spans = led(text, before)
        moved += (spans != before).any()
        assert spans[0, 0] == 0 and spans[-1, 1] == len(text) and np.array_equal(spans[1:, 0], spans[:-1, 1])
        ends = [text[start:end].rstrip().rpartition("\n")[2] for start, end in spans[:-1].tolist()]
        assert not set(ends) & set(lines)
    assert moved or chunker is paragraphs


@pytest.mark.parametrize(
    "text",
    [
        # Sentences, rows of a table, items of a list, verses: none says what the next is about.
        f"{PROSE}\n\n{PROSE}\n\n{PROSE}",
        "| a | b |\n| 1 | 2 |\n| 3 | 4 |\n",
        "\n".join(f"item {i}" for i in range(40)),
        "To be, or not to be,\nthat is the question:\nWhether 'tis nobler in the mind,\nto suffer\n",
    ],
)
def test_other_ends_stay(text):
    ends = [i + 1 for i, letter in enumerate(text) if letter == "\n"] + [len(text)]
    spans = spans_to(sorted(set(ends[2::3] + [len(text)])))
    assert np.array_equal(led(text, spans), spans)


@given(
    st.lists(st.sampled_from(["Head", "A sentence.", "\n", "\n\n", " ", "|", "x" * 90, "設定"]), max_size=40), st.data()
)
def test_any_spans_still_tile_the_text(parts, data):
    text = "".join(parts)
    ends = data.draw(st.sets(st.integers(1, max(len(text), 1)), max_size=9))
    spans = spans_to(sorted({*(end for end in ends if end < len(text)), *([len(text)] if text else [])}))
    moved = led(text, spans)
    assert len(moved) == len(spans) and (not len(spans) or (moved[0, 0] == 0 and moved[-1, 1] == len(text)))
    assert (moved[:, 0] < moved[:, 1]).all() and np.array_equal(moved[1:, 0], moved[:-1, 1])
