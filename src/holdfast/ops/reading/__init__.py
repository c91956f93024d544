"""Stored state, read through Spark: blobs, keys, cells."""
