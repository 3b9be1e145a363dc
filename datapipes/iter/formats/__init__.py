"""Operators that read what is in files: text, records, tables, samples.

- ``arrow``: read_arrow, files and streams of record batches
- ``csv``: parse_csv, parse_csv_as_dict
- ``csv_columns``: read_csv_columns, typed columns of CSV files
- ``json``: parse_json_files, parse_jsonl
- ``parquet``: list_row_groups, read_parquet, load_parquet_as_df
- ``routed_decode``: routed_decode, by the ending of a path
- ``tables``: what all stages that read tables have in common
- ``tf_examples``: the payload of TensorFlow's records, read without TensorFlow
- ``tfrecord``: load_from_tfrecord, its checksums verified
- ``webdataset``: webdataset, members of archives put together as samples
"""
