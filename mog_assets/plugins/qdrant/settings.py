"""The section `qdrant` of `mog.yaml`."""

from __future__ import annotations

from typing import Literal

from mog_assets import registry
from mog_assets.config import Section
from mog_assets.resources.settings import SettingsModel


class QdrantSettings(SettingsModel):
    """Form of vectors in Qdrant: as they are, rounded to 16 bits, or in about a byte for each number."""

    # Hits are compared again with the vectors of the store. See benchmarks/README.md.
    vectors: Literal["float32", "float16", "int8"] = "int8"


QDRANT: Section[QdrantSettings | None] = Section("qdrant", QdrantSettings | None, None)
registry.SECTIONS.register("qdrant", QDRANT)
