"""Memory of batches: allocation, leases and pinning.

- ``batches``: allocation of new batches, from recycled or given memory
- ``leases``: leases on memory, returned when nobody refers to it any more
- ``pinning``: move the tensors of an element into pinned memory
"""
