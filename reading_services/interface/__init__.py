"""The interface of a reading service, which a plugin implements to run a graph elsewhere, and the info on a worker.

- ``installed``: reading services by name, of this library and of installed plugins
- ``service``: ReadingServiceInterface and WorkerInfo
"""
