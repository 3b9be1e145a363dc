"""Between hosts: how two processes prove that they belong together.

- ``proof``: mutual proof of a key that both sides know, over a connection that others may read
"""
