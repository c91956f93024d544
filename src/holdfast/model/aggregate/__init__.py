"""Combiners, and the triggers that decide when an aggregation gives results."""
