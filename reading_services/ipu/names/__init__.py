"""PopTorch's names: enums, errors, logging, execution strategies, structures of tensors.

- ``absent``: PopTorch's public names that have no counterpart here, and what to write in place of each
- ``annotations``: operations that tell PopTorch's compiler something, and change no number
- ``custom_types``: nested structures of tensors, with registered types among them
- ``enums``: PopTorch's enums
- ``errors``: PopTorch's errors
- ``messages``: logging: the logger, its levels and the form of its lines
- ``old_names``: whether PopTorch's own names are switched on, and what passes only then
- ``strategies``: execution strategies: a model cut over several IPUs, and the order in which its parts run
"""
