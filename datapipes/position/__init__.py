"""Iteration state: sessions, positions of stages, seeds, users' classes, error policies.

- ``blame``: notes on exceptions: the stage, the user's function, the element
- ``cells``: Cell, the saved and restored position of one stage; counts
- ``forks``: fork safety: what one process began is refused in a fork of it
- ``global_draws``: the global generators of random numbers, as far as positions depend on them
- ``inner_session``: what is above a stage, in a session of its own that can be given up and begun again
- ``iterator``: PipeIterator, with ``state_dict`` and ``load_state_dict``
- ``laps``: a source that is gone over again and again, in a session of its own each time
- ``on_error``: error policies: raise, skip, retry or ask a function; counts and limits
- ``opening``: Opening, the context of a stage when it starts
- ``own_generators``: generators on ``self`` of users' plain classes, seeded for the epoch
- ``orphans``: the end of a worker with the process that started it
- ``pandas_rows``: pandas frames as elements: masked rows, columns as tensors
- ``plain_data``: validation of a saved state as plain data, before any stage looks at it
- ``plain_values``: plain values on ``self`` that an epoch changes, which get a warning
- ``plan``: the stages that a session opens, in which order, and what each of them reads
- ``reopening``: open the streams of a saved position again, by the stages that opened them
- ``seeds``: the seed of a stage, from run seed, epoch, place and shard
- ``session``: one opening of a plan: its phases, its iterators, and how to start again
- ``session_cells``: the cells of one session, and the elements that an interruption has put back
- ``share``: share of a stream that was read, for one whose length is not known
- ``source_identity``: fingerprints of a graph's sources, so that a position is not taken for another's
- ``steps``: ``map`` and ``filter`` stages, compiled together into one loop
- ``torch_worker``: a pipe that is iterated directly, or in a worker of torch's DataLoader
- ``trail``: positions of a source, for whoever reads ahead of what it hands on: when to look, what waits
- ``user_classes``: users' own classes that have an ``__iter__`` and know nothing of sessions
- ``user_positions``: position of a user's class: a replay by count, or its own ``state_dict``
"""
