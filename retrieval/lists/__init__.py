"""Rows in the lists of access classes, and what scores them; faiss and numkong are fenced here."""
