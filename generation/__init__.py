"""Prompt to text. Knows nothing of access, storage or HTTP."""
