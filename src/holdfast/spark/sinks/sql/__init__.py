"""Sinks that write to a table of a SQL database, together with notes of what they have written."""
