"""Builds a step on the driver: checks everything, then puts the stages together."""
