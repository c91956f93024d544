"""Running steps on Spark.

Imports go from right to left: job, sinks, api, graph, steps, stages, types, errors, session.
"""

from holdfast.model.extras import require_spark

require_spark("holdfast.spark")
