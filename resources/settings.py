"""What the settings of every resource have in common."""

from pydantic import BaseModel, ConfigDict


class SettingsModel(BaseModel):
    """Settings that cannot be changed, and that refuse a key they do not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)
