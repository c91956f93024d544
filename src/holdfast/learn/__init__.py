"""Exercises that check themselves: `holdfast learn`."""
