"""The operator on data frames of pandas.

- ``making``: dataframe, frames of rows
"""
