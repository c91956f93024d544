"""Builds a step on the driver: checks everything, then connects the stages."""
