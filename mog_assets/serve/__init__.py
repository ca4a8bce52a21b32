"""Query a materialised project for passages and answers."""
