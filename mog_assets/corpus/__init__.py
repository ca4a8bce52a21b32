"""Read and normalise documents; record what could not be used."""
