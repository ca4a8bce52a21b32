"""What the settings of every resource have in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# What arrays, files and other programs count in 32 bits.
MOST = 2**31 - 1
Count = Annotated[int, Field(gt=0, le=MOST)]


class SettingsModel(BaseModel):
    """Settings that cannot be changed, and that refuse a key they do not know, infinities and what is no number."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
