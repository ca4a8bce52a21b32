"""BM25 and dense indexes of every level, their fusion, and the granularity mix."""
