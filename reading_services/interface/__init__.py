"""The interface of a reading service, which a plugin implements to run a graph somewhere; worker info.

- ``installed``: reading services by their names, of this library and of installed plugins
- ``service``: ReadingServiceInterface, which a plugin implements
"""
