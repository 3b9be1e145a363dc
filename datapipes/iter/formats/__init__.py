"""Operators that parse file formats: text, records, tables, samples.

- ``sample_decoders``: what the files of a webdataset's sample become, by their endings
- ``tables``: opening, checking and converting tables, for all stages that read them
"""
