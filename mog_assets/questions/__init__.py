"""Question sets: questions, their splits, and the gold evidence in the corpora they are asked of."""
