"""Caches on disk: what was made once is read the next time."""
