"""A job: one query from start to stop, with its lock, its sinks and its manifest."""
