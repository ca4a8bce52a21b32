"""Topics of chunks: a model that is fitted rarely, and topics of chunks and questions by it."""
