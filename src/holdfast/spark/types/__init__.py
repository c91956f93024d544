"""Conversion between Spark's, Arrow's and Python's types: schemas, rows, and what fits into a column."""
