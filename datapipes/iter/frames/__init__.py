"""The operators on data frames are in this folder."""
