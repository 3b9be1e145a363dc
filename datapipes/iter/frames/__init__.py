"""Operators on data frames of pandas.

- ``making``: dataframe, _to_dataframes_pipe: frames of rows
- ``parting``: _dataframes_as_tuples, _dataframes_per_row, _dataframes_concat
- ``regrouping``: _dataframes_shuffle, _dataframes_filter
- ``tape``: what is done to a data frame, written down
- ``tracing``: trace_as_dataframe, a stream of frames used as one
"""
