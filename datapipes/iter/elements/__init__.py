"""Operators that map, filter, flatten, number, repeat and skip elements."""
