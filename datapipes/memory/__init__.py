"""Memory of batches: allocation, leases, pinning, and moving to a device.

- ``batches``: allocation of new batches, from recycled or given memory
- ``contents``: elements rebuilt around new contents
- ``leases``: leases on memory, returned with the last reference
- ``moving``: move the tensors of an element to a device, in the background
- ``pinning``: move the tensors of an element into pinned memory
"""
