"""Common base of the settings of all resources."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# Largest count that arrays, files and other programs store in 32 bits.
MOST = 2**31 - 1
Count = Annotated[int, Field(gt=0, le=MOST)]


class SettingsModel(BaseModel):
    """Immutable settings that reject unknown keys, infinities and NaN."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
