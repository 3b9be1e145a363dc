"""Operators on one element at a time, on several at once, and on how many there are."""
