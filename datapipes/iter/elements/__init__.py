"""Operators that map, filter, flatten, number and repeat elements."""
