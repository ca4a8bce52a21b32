"""Cut documents into level-1 chunks; coarser levels by index arithmetic."""
