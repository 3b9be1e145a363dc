"""Synchronization of the ranks of a process group, whatever carries what they say. What is said is plain data.

- ``blocks``: read-ahead of one rank in blocks, and its positions
- ``exchange``: one rank's part in what all say: its reports, the verdicts, bad news
- ``in_step``: one rank's stream, synchronized with those of the other ranks
- ``topics``: protocol of reports, verdicts and bad news among ranks; pure functions
"""
