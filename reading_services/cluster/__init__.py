"""Workers on the machines of a cluster: an engine starts them, and they call home.

- ``agent``: what runs on a machine in the engine's own process, and starts a member there
- ``datasets``: datasets of Ray's as sources, and the elements of a graph as such a dataset
- ``door``: where members come in: a thread that lets them in, and hears signs of life
- ``engine``: what an engine has to do, in five verbs
- ``member``: the process of a member
- ``modules``: digests of the modules that a pickle refers to by name
- ``place``: the members of a pool, as a place for it
- ``ray_engine``: Ray as the engine
- ``service``: RayReadingService
"""
