"""Readers of untrusted archives and compressed files.

Data is complete only after its checksum has been verified. A length in a header is not trusted: no memory is allocated
for it, and data that is shorter is an error.

- ``codecs``: decompressors, by file name or first bytes
- ``inflating``: a decompressing stream, which ends after its checksum is verified
- ``limits``: limits on decompressed size, counted through all levels of nesting
- ``ranges``: parts of one file as streams, for concurrent readers
- ``tar_entries``: a tar archive's content and headers
- ``zip_entries``: a zip archive's directory, checked against the archive
"""
