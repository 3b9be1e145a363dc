"""Operator that makes data frames of pandas."""
