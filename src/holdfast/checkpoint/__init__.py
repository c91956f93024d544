"""What is on disk: the parts of Spark's files that we read, and our own beside them. Used by `spark` and `ops`."""
