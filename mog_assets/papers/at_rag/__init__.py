"""AT-RAG: retrieval by topic, thoughts, graders and rewritten queries, and Adaptive-RAG, which chooses between ways."""
