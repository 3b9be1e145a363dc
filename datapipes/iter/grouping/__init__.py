"""Operators that group elements, take groups apart, or change their order."""
