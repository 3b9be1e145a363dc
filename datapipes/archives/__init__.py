"""What is inside archives and compressed files, read with nothing believed: see the files beside this one.

Data is complete when its checksum was read and held, and not before. A length in a header is a claim: nothing is
allocated by it, and what falls short of it is an error.
"""
