"""A job's steps as one graph: which way rows go, and one query that takes them there, each step running once."""
