"""Read and normalise documents; record those that cannot be used."""
