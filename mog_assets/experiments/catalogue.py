"""All experiments, in the order of the results."""

from __future__ import annotations

from mog_assets.experiments import (
    answers,
    briefcontext,
    chunking,
    conflicts,
    cost,
    granularity,
    labels,
    learning,
    loop,
    preflight,
    retrievers,
)
from mog_assets.experiments.lab import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    *granularity.EXPERIMENTS,
    *retrievers.EXPERIMENTS,
    *labels.EXPERIMENTS,
    *learning.EXPERIMENTS,
    *chunking.EXPERIMENTS,
    *cost.EXPERIMENTS,
    *briefcontext.EXPERIMENTS,
    *conflicts.EXPERIMENTS,
    *preflight.EXPERIMENTS,
    *loop.EXPERIMENTS,
    *answers.EXPERIMENTS,
)
