"""Migration of programs written for torchdata, torch's pipes or PopTorch: ``python -m loader2 migrate``.

- ``configs``: whole dotted names in YAML, JSON and TOML files
- ``migration``: the command: files found, differences shown or written, notes
- ``names``: old dotted name -> new dotted name
- ``notebooks``: the code cells of notebooks
- ``notes``: notes on lines that the programmer has to decide
- ``programs``: Python files: imports, chains of attributes, strings
"""
