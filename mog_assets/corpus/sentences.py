"""Where sentences end: fast, in order, without copying the text."""

from __future__ import annotations

import re

import numpy as np

# A sentence ends after its final punctuation, closing quotes and brackets, and the white space that follows; where the
# next one starts with a lower-case letter the full stop belonged to an abbreviation. A line break ends any line.
_END = re.compile(r"(?:[.!?…]+[\"'”’)\]]*\s+(?=[^a-z\s])|[。！？]+\s*|\n\s*)")
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Z]|Dr|Mr|Mrs|Ms|Prof|St|vs|etc|e\.g|i\.e|cf|al|Fig|fig|No|no|approx|ca|Inc|Ltd|Jr|Sr|U\.S))$"
)


def sentence_ends(text: str) -> np.ndarray:
    """Offsets just after each sentence and the white space that follows it.

    Args:
        text: Any text.

    Returns:
        int64 array of strictly increasing offsets; the last one is len(text) unless the text is empty.
    """
    ends = []
    for match in _END.finditer(text):
        start = match.start()
        if text[start] == "." and "\n" not in match.group() and _ABBREVIATION.search(text, max(0, start - 8), start):
            continue
        ends.append(match.end())
    if text and (not ends or ends[-1] != len(text)):
        ends.append(len(text))
    return np.asarray(ends, np.int64)
