"""What the graph touches: store, engine, encoder, vector store, language model."""
