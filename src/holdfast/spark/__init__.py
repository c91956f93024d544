"""The only place that knows Spark: keyed streams, the stages of a step, the worker, jobs, sources and sinks."""
