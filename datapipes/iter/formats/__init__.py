"""Operators that read what is in files: text, records, tables, samples.

- ``tables``: what all stages that read tables have in common
- ``tf_examples``: the payload of TensorFlow's records, read without TensorFlow
"""
