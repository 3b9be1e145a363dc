"""Operators that batch, group, unbatch, window and shuffle elements."""
