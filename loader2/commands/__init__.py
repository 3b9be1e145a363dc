"""Commands of ``python -m loader2`` that are no part of loading.

- ``demo``: a tour of the library: ``python -m loader2 demo``
- ``new_plugin``: the files of a new plugin: ``python -m loader2 new-plugin``
- ``stubs``: stubs of installed plugins' methods, for type checkers: ``python -m loader2 stubs``
"""
