"""Synchronization of the ranks of a process group, independent of the transport. All messages are plain data.

- ``blocks``: read-ahead of one rank in blocks, and its positions
- ``exchange``: one rank's side of the exchange: its reports, the verdicts, bad news
- ``synchronized``: one rank's stream, synchronized with the streams of the other ranks
- ``topics``: protocol of reports, verdicts and bad news among ranks; pure functions
"""
