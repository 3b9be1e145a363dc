"""Operators that parse file formats: text, records, tables, samples.

- ``tables``: opening, checking and converting tables, for all stages that read them
"""
