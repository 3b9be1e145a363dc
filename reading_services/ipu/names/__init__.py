"""PopTorch's names: enums, errors, logging, execution strategies, structures of tensors.

- ``absent``: PopTorch's public names that have no counterpart here, and what to write in place of each
- ``annotations``: annotations for PopTorch's compiler, which change no number
- ``custom_types``: nested structures of tensors, with registered types among them
- ``enums``: PopTorch's enums
- ``errors``: PopTorch's errors
- ``messages``: logging: the logger, its levels and the form of its lines
- ``old_names``: switch for PopTorch's own names, and the calls that are accepted only under these names
- ``strategies``: execution strategies: a model cut into blocks and stages for several IPUs
"""
