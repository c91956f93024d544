"""Failures on their way from a worker to the user."""
