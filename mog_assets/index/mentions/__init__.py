"""What documents are called, and where texts name them."""
