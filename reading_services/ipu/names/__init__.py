"""PopTorch's words: enums, errors, the log, strategies, structures of tensors.

- ``custom_types``: structures of tensors, with registered types among them
- ``enums``: its enums
- ``errors``: its errors
- ``messages``: the logger, its levels and the form of its lines
- ``strategies``: how a model is cut over several IPUs, and in which order the parts run
"""
