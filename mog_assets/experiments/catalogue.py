"""All experiments, in the order of the results."""

from __future__ import annotations

from mog_assets.experiments import answers, briefcontext, chunking, cost, granularity, labels, loop, retrievers
from mog_assets.experiments.lab import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    *granularity.EXPERIMENTS,
    *retrievers.EXPERIMENTS,
    *labels.EXPERIMENTS,
    *chunking.EXPERIMENTS,
    *cost.EXPERIMENTS,
    *briefcontext.EXPERIMENTS,
    *loop.EXPERIMENTS,
    *answers.EXPERIMENTS,
)
