"""The sentence graph of MoGG: nodes of one or two sentences, edges by BM25, and the neighbourhoods of nodes."""
