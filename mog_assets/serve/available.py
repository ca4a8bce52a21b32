"""What can be searched: corpora and methods; and why something is not found, or cannot be searched yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from mog_assets.build.tools import Tools
from mog_assets.index.corpora import Corpora
from mog_assets.resources.errors import MissingArtefact
from mog_assets.search.methods import Method, by_words, needs, trained_methods
from mog_assets.search.quotes import phrases
from mog_assets.search.where import Fields
from mog_assets.serve.generations import Generation
from mog_assets.serve.reading import Sight
from mog_assets.serve.results import CorpusInfo
from mog_assets.text.languages import name_of


def corpora(opened: Corpora, fields: Fields, sight: Sight) -> list[CorpusInfo]:
    """Return the corpora of which a document may be seen, with what may be seen of them."""
    infos, (characters, languages) = [], opened.sizes
    pieces = np.bincount(opened.layout.document_of, minlength=len(characters))
    for number, name in enumerate(opened.names):
        mask = opened.owners == number
        mask = mask if sight.documents is None else mask & sight.documents
        if sight.documents is not None and not mask.any():
            continue
        spoken = Counter(languages[position] for position in np.flatnonzero(mask).tolist())
        named = {name_of(code): count for code, count in sorted(spoken.items(), key=lambda item: (-item[1], item[0]))}
        names = tuple(field for field in fields.names(mask) if sight.known is None or field in sight.known)
        size, count = int(characters[mask].sum()), int(pieces[mask].sum())
        infos.append(CorpusInfo(name, int(mask.sum()), size, count, names, named))
    return infos


def nothing(method: Method, given: dict[str, float] | None, question: str, filtered: bool) -> str:
    """Return the reason why a method found no passage."""
    if wanted := phrases(question):
        texts = " and ".join(f"“{text}”" for text in wanted)
        return f"No document that may be searched has {texts} as it stands: leave out the quotation marks."
    if filtered:
        return "No passage of the corpora and documents that were asked for."
    if reason := method.of.nothing(given):
        return reason
    if method.retriever == "bm25":
        return "No passage has a word in common with the question."
    return "No passage: there are no vectors to compare the question with."


def has(now: Generation, method: Method) -> bool:
    """Return whether what a method needs has been materialised."""
    corpora = now.retrieval.corpora
    if method.trained and not corpora.settings.trains:
        return False
    # `auto` stands for one method, not for all that it might have been.
    methods = [now.retrieval.resolved(method)]
    wanted = needs(methods, corpora.settings)
    try:
        for key in wanted.common:
            corpora.read(key, None)
        for key in wanted.per_corpus:
            corpora.read(key, corpora.names[0])
        return bool(trained_methods(methods, corpora.settings, corpora.read))
    except MissingArtefact:
        return False


def until_then(tools: Tools, now: Generation, names: Sequence[str], way: str) -> str | None:
    """Say what can be searched before a first run has made what a search needs, asked in a way; None if nothing."""
    words = by_words(tools.settings)
    if all(tools.store.find("embeddings/level_1", name) for name in names) or not has(now, words):
        return None
    return f"until then words can be searched, with method {f'{words.name} → {way}' if way else words.name}"
