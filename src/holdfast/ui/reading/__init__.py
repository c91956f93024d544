"""What the dashboard shows, read from checkpoints: histories as they grow, state, graphs, savepoints."""
