"""An embedded reader: finds the answer of a question in passages, or says that there is none."""
