"""Whether a checkpoint is sound, how large it grows, and what is missing on this machine."""
