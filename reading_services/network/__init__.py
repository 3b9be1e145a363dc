"""Between hosts: where a process listens for others, and how two of them prove that they belong together.

- ``address``: this host's address on the network of its process group, and ports that are free there
- ``proof``: mutual proof of a key that both sides know, over a connection that others may read
"""
