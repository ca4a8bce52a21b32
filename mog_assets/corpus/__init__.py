"""Read and normalise documents and questions, split documents into level-1 spans."""
