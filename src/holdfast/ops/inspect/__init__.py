"""Looking at state: one key, whole cells, differences between micro-batches."""
