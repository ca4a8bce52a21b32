"""Plots of topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mog_assets.build.plots import new_figure, plain, png

_MOST_TOPICS, _MOST_CORPORA = 25, 30


def topics_by_corpus(corpora: Sequence[str], counts: np.ndarray, labels: Mapping[int, str]) -> bytes:
    """Return share of each corpus's chunks in the largest topics, the outliers and the rest (AT-RAG, figure 3).

    Args:
        corpora: Names of the rows; if there are many, only the first ones are shown.
        counts: Number of chunks, shape (corpora, topics + 1); column 0 counts outliers, column t + 1 topic t.
        labels: Of the topics.
    """
    corpora = corpora[:_MOST_CORPORA]
    counts = np.asarray(counts, float)[: len(corpora)]
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    largest = 1 + np.argsort(-counts[:, 1:].sum(axis=0), kind="stable")[:_MOST_TOPICS]
    rest = np.delete(shares, [0, *largest], axis=1).sum(axis=1)
    shown = np.column_stack([shares[:, 0], shares[:, largest], rest])
    names = [labels[-1], *(f"{t - 1}: {labels[int(t) - 1]}" for t in largest), "all other topics"]
    figure = new_figure(3.4 + 0.55 * len(corpora), 1.6 + 0.24 * len(names))
    axes = figure.subplots()
    image = axes.imshow(shown.T, cmap="Blues", vmin=0, vmax=max(float(shown.max(initial=0)), 1e-9), aspect="auto")
    axes.set_xticks(range(len(corpora)), [plain(name) for name in corpora], rotation=60, ha="right")
    axes.set_yticks(range(len(names)), [plain(name if len(name) <= 44 else name[:43] + "…") for name in names])
    axes.set_title("Share of a corpus's chunks by topic")
    figure.colorbar(image, ax=axes)
    return png(figure)
