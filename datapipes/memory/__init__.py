"""Memory of batches: where it comes from, who has it on loan, and pinning.

- ``batches``: where the memory of new batches comes from
- ``leases``: memory that is lent, and comes back when nobody refers to it any more
- ``pinning``: move what an element holds into pinned memory
"""
