"""What a plugin implements to run a graph somewhere, and what it tells those who run it.

- ``service``: what a plugin implements
- ``worker_info``: who runs a graph: one of how many
"""
