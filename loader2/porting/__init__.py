"""Programs written for torchdata, torch's pipes or PopTorch: run under their own names, or rewritten.

- ``migrating/``: migration of programs: ``python -m loader2 migrate``
- ``old_functions``: functions that only torchdata's tests, forks and some projects' pipes used
- ``old_modules``: tables of torchdata's, torch's and PopTorch's modules, and of their names here
- ``old_names``: torchdata's, torch's and PopTorch's modules as names of this library's, for one program
"""
