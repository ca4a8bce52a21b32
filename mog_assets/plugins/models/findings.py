"""What `mog doctor` finds of the reranker."""

from __future__ import annotations

from collections.abc import Iterator

from mog_assets import registry
from mog_assets.cli.findings import OK, Finding
from mog_assets.config import Settings
from mog_assets.plugins.models.reranker import Reranker
from mog_assets.plugins.models.reranker_settings import RERANKER


def reranker(settings: Settings) -> Iterator[Finding]:
    """Check that the reranker reads, if there is one."""
    if chosen := RERANKER.of(settings):
        one = Reranker(chosen)
        seconds = one.seconds()
        yield Finding(
            "reranker", OK, f"{one.model.description}: a question's {chosen.pieces} pieces in {seconds:.2f} s"
        )


registry.FINDINGS.register("reranker", reranker)
