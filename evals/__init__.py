"""Is it right, is it safe, is it fast."""
