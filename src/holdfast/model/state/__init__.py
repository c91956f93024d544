"""What a step remembers: the specs of its cells, their time to live, limits, and upgrades."""
