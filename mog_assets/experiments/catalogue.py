"""Every experiment, in the order in which the results tell them."""

from __future__ import annotations

from mog_assets.experiments import answers, briefcontext, granularity, loop
from mog_assets.experiments.lab import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    *granularity.EXPERIMENTS,
    *briefcontext.EXPERIMENTS,
    *loop.EXPERIMENTS,
    *answers.EXPERIMENTS,
)
