"""What is on disk: Spark's files as far as they have to be read, and ours beside them. Known to `spark` and to `ops`."""
