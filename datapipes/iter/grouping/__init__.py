"""Operators that batch, group, unbatch and shuffle elements."""
