"""The counters of a step, and its busiest and largest keys."""
