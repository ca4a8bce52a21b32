"""What words of a text are searched for, and in which language."""
