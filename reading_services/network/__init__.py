"""Connections between hosts: the address to listen at, and the proof that two processes belong together.

- ``address``: this host's address on the network of its process group, and free ports
- ``proof``: mutual proof of a shared key, over a connection that other processes may read
"""
