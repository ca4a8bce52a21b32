"""Question sets: questions, their splits, and the gold evidence in their corpora."""
