"""Whether a job is well, judged by its history."""
