"""The interface of a reading service, which a plugin implements to run a graph somewhere; worker info.

- ``service``: ReadingServiceInterface, which a plugin implements
"""
