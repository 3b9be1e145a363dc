"""Operators that begin a stream."""
