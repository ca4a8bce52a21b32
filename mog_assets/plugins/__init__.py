"""What is optional, a folder each: nothing else of the package imports it, and no plugin imports another."""
