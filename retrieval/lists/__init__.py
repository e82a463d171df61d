"""Rows in the lists of access classes, as FAISS searches them; the only importer of faiss."""
