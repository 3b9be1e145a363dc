"""Operators that say where and when a part of the graph runs."""
