"""Points in time, durations, and timers."""
