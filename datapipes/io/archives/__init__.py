"""Readers of untrusted archives and compressed files.

Data is complete when its checksum was read and held, and not before. A length in a header is a claim: nothing is
allocated by it, and what falls short of it is an error.

- ``codecs``: decompressors, by file name or first bytes
- ``inflating``: a decompressing stream, which ends when its checksum held
- ``limits``: limits on decompressed size, counted through all levels of nesting
- ``ranges``: parts of one file as streams, for concurrent readers
- ``tar_entries``: a tar archive's content and headers, for us and for ``tarfile``
- ``zip_entries``: a zip archive's directory, checked against the archive
"""
