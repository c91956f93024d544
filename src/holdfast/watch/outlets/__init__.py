"""Ways out of a job: what it tells of itself, for other systems."""
