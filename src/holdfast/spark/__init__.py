"""Running steps on Spark.

Imports go from right to left: job, sinks, api, steps, stages, types, errors, session.
"""
