"""Operators that batch, group, pack, unbatch, window and shuffle elements."""
