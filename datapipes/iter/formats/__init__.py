"""Operators that parse file formats: text, records, tables, samples.

- ``json_by_orjson``: lines of JSON decoded by orjson, with the values and errors of json
- ``sample_decoders``: decoders for the files of a webdataset's sample, by their endings
- ``tables``: opening, checking and converting of tables, for all stages that read them
"""
