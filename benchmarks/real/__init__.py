"""Thirteen kinds of real work, each as this library's pages teach it and as each peer's own pages teach it.

A kind is a file: what makes its data, what one element is, and a function for each contender, which gives a loader.
Ours has the graph of a program in ``tutorials/recipes``, with the functions that all contenders share. Contenders do
the same work with the same functions for decoding and the like, and what they deliver has to be the same elements, in
whatever order. ``python -m benchmarks.real`` runs them; each in a fresh process, in turn.

- ``data``: the folder in which data are made once, and words, waves and pictures to make them of
- ``digest``: the elements of a loader as one number, whatever their order and form
- ``kind``: what a kind of work is, and a contender
- ``loaders``: the loaders of the libraries, where kinds do not differ in them
- ``process``: the tree of processes of a contender: its memory, its CPU time
- ``child``: one contender, in a process of its own
- ``race``: contenders in turn, and the tables of what they showed
- ``chart``: the results as a file, and the chart of them on the pages
- ``images``, ``crops``, ``tars``, ``text``, ``parquet``, ``csv_rows``, ``memory_map``, ``small_images``, ``sound``: the
  kinds
- ``kinds``: all of them, by name
"""
