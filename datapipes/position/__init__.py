"""The position in a graph while it is iterated: sessions, cells of stages, seeds, users' classes, error policies.

- ``error_notes``: notes on exceptions: the stage, the user's function, the element
- ``cells``: Cell: the position of one stage, saved and loaded; counts
- ``forks``: fork safety: a forked process must not use the sessions of its parent
- ``global_draws``: the global random number generators, where positions depend on them
- ``inner_session``: a session of the stages above one stage, which can be closed and opened again
- ``iterator``: PipeIterator, with ``state_dict`` and ``load_state_dict``
- ``laps``: repeated passes over a source, each in a session of its own
- ``on_error``: error policies: raise, skip, retry or call a function; counts and limits
- ``opening``: Opening, the context of a stage when it starts
- ``own_generators``: random number generators in users' classes, seeded for each epoch
- ``parent_watch``: the end of a worker together with its parent process
- ``pandas_rows``: pandas frames as elements: masked rows, columns as tensors
- ``plain_data``: validation of a saved state as plain data, before any stage reads it
- ``plain_values``: warnings of plain attributes that a class changes while it is iterated
- ``plan``: the stages that a session opens, their order, and the inputs of each
- ``reopening``: the streams of a saved position, opened again by the stages that opened them
- ``seeds``: the seed of a stage, from run seed, epoch, place and shard
- ``session``: one opening of a plan: its phases, its iterators, and how to start again
- ``session_cells``: the cells of one session, and the elements that an interruption has put back
- ``completion``: completion of a stream without a known length
- ``source_fingerprints``: fingerprints of a graph's sources, so that a state is not loaded above other sources
- ``steps``: ``map`` and ``filter`` stages, compiled together into one loop
- ``torch_worker``: pipes that are iterated directly, or in a worker of torch's DataLoader
- ``position_history``: the position history of a source that is read ahead, and the snapshot budget
- ``user_classes``: users' own classes, which have an ``__iter__`` only
- ``user_positions``: the position of a user's class: a replay by count, or its own ``state_dict``
"""
