"""Search of the chunks of each level for their own sake, as the papers have it: BM25 by bm25s, all vectors, or both."""
