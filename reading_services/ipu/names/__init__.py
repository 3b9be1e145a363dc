"""PopTorch's names: enums, errors, logging, execution strategies, structures of tensors.

- ``custom_types``: nested structures of tensors, with registered types among them
- ``enums``: PopTorch's enums
- ``errors``: PopTorch's errors
- ``messages``: logging: the logger, its levels and the form of its lines
- ``strategies``: execution strategies: a model cut over several IPUs, and the order in which its parts run
"""
