"""Both flows, serve and ingest, and what they may spend."""
