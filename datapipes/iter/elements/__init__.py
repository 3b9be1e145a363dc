"""Operators that map, filter, flatten, number, repeat and pass over elements."""
