"""Plots of the sentence graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mog_assets.build.plots import new_figure, plain, png

# Colours that colour-blind readers tell apart (Okabe and Ito 2008).
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
_OTHERS = "#999999"


def degree_histogram(degrees: np.ndarray) -> bytes:
    """Return histogram of neighbours per node; both axes are logarithmic from 1 on, as few nodes have very many."""
    figure = new_figure(5, 2.6)
    axes = figure.subplots()
    values, counts = np.unique(degrees, return_counts=True)
    axes.plot(values, counts, ".", color=_COLOURS[0])
    axes.set_xscale("symlog", linthresh=1)
    axes.set_yscale("log")
    axes.set(xlabel="neighbours", ylabel="nodes", title=f"Neighbours of {len(degrees):,} nodes")
    axes.set_xlim(left=-0.2)
    axes.grid(alpha=0.3)
    return png(figure)


def neighbourhood(edges: np.ndarray, hops: np.ndarray, documents: Sequence[str], title: str) -> bytes:
    """Return a neighbourhood: its centre in the middle, a ring for each number of hops, a colour for each document.

    Args:
        edges: int array of shape (m, 2): pairs of the n nodes, numbered from 0.
        hops: int array of shape (n,): hops from the centre, which has 0.
        documents: Document of every node.
        title: Of the plot.
    """
    angles = _angles(edges, hops)
    x, y = hops * np.cos(angles), hops * np.sin(angles)
    figure = new_figure(6.4, 4.4)
    axes = figure.subplots()
    for a, b in edges:
        axes.plot(x[[a, b]], y[[a, b]], color="#bbbbbb", linewidth=0.9, zorder=1)
    names = list(dict.fromkeys(documents))
    for position, name in enumerate(names):
        here = np.array([document == name for document in documents])
        colour = _COLOURS[position] if position < len(_COLOURS) else _OTHERS
        label = plain(name[:30]) if position < len(_COLOURS) else "others" if position == len(_COLOURS) else None
        axes.scatter(x[here], y[here], s=210, color=colour, label=label, zorder=2, edgecolors="white")
    for number in range(len(hops)):
        axes.text(x[number], y[number], str(number), ha="center", va="center", fontsize=8, zorder=3)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title(plain(title))
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), title="document")
    return png(figure)


def _angles(edges: np.ndarray, hops: np.ndarray) -> np.ndarray:
    """Return nodes evenly on their rings, in order of the first node of the inner ring that they are linked to."""
    angles = np.zeros(len(hops))
    place = np.zeros(len(hops))
    for ring in range(1, int(hops.max(initial=0)) + 1):
        nodes = np.flatnonzero(hops == ring)
        inner = np.full(len(nodes), np.inf)
        for position, node in enumerate(nodes):
            others = np.concatenate([edges[edges[:, 0] == node, 1], edges[edges[:, 1] == node, 0]])
            inner[position] = min(place[other] for other in others if hops[other] == ring - 1)
        ordered = nodes[np.argsort(inner, kind="stable")]
        place[ordered] = np.arange(len(ordered)) / len(ordered)
        # Half a step more on every other ring, so that an edge seldom runs through a node.
        angles[ordered] = 2 * np.pi * (place[ordered] + 0.5 * (ring % 2) / len(ordered))
    return angles
