"""State as it is stored, read by Spark: blobs, keys, cells."""
