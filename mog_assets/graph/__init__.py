"""The sentence graph of MoGG: nodes of a sentence or two, edges by BM25, and what lies within some hops of a node."""
