"""Questions made from documents, by a language model or without one."""
