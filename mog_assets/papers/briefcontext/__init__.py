"""BriefContext: map-reduce over partitions of a long context."""
