"""Between Spark's types, Arrow's and Python's: schemas, rows, and what fits into a column."""
