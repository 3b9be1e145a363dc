"""The operator on data frames of pandas."""
