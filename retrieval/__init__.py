"""Documents to passages to candidates: both sides of the index."""
