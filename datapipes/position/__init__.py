"""Where an iteration is: sessions, positions of stages, seeds, users' classes, errors on the way.

- ``blame``: the note on an exception that says where it came from
- ``cells``: what one stage remembers of where it is
- ``counting``: iterators in C that know how far they are
- ``forks``: which process began something, so that a fork of it does not use it
- ``iterator``: what one iterates, and how it says where it is
- ``kept``: what a plain class of a user's keeps on ``self`` from one epoch to the next
- ``on_error``: what becomes of elements that cannot be made: raise, skip, retry, ask; counts and limits
- ``opening``: what a stage is given when it starts
- ``orphans``: the end of a worker with the process that started it
- ``pandas_rows``: pandas frames as elements: masked rows, columns as tensors
- ``plain_data``: what a saved state may hold, checked before any stage looks at it
- ``reopening``: open the streams of a saved position again, by the stages that opened them
- ``seeds``: the seed of a stage, from run seed, epoch, place and shard
- ``session``: one opening of a graph: iterators, cells, and how to start again
- ``source_identity``: what identifies the sources of a graph, so that a position is not taken for another's
- ``steps``: ``map`` and ``filter`` stages, compiled together into one loop
- ``torch_worker``: a pipe that is iterated directly, or in a worker of torch's DataLoader
- ``user_classes``: users' own classes that have an ``__iter__`` and know nothing of sessions
- ``user_positions``: where a user's class is: how much of it is called again, or what it says it remembers
"""
