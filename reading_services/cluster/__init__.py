"""Workers on the machines of a cluster: an engine starts them, and they connect to the main process.

- ``agent``: the engine's process on a machine, which starts a member there
- ``datasets``: datasets of Ray's as sources, and the elements of a graph as such a dataset
- ``listener``: a thread that accepts the members' connections, and sends and receives heartbeats
- ``engine``: the interface of an engine: five methods
- ``member``: the process of a member
- ``modules``: digests of the modules that a pickle refers to by name
- ``host``: the members of a pool on a cluster
- ``ray_engine``: Ray as the engine
- ``service``: RayReadingService
"""
