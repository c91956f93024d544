"""What tells micro-batches apart: the id of their query, and their plans, which Spark writes before it begins."""

from __future__ import annotations

import hashlib
import json

from pyspark.sql import SparkSession

from holdfast.checkpoint.files.choice import join, read_file

__all__ = ["plan_of", "stored_query_id"]


def stored_query_id(spark: SparkSession | None, checkpoint: str) -> str | None:
    """The id of the query of a checkpoint; None as long as there is none."""
    content = read_file(spark, join(checkpoint, "metadata"))
    try:
        return None if content is None else str(json.loads(content)["id"])
    except (ValueError, KeyError, TypeError):
        # Spark itself refuses to start on what is no metadata.
        return None


def plan_of(spark: SparkSession | None, checkpoint: str, batch_id: int) -> str:
    """A digest of the plan of a micro-batch: when it was planned, and up to where of each source. "" if there is none.

    A replay has the same. Spark's settings, which are in the plan too, are left out: a tool may alter them.
    """
    content = read_file(spark, join(checkpoint, "offsets", str(batch_id)))
    return "" if content is None else plan_digest(content)


def plan_digest(content: bytes) -> str:
    """The digest of the content of a file of Spark's offset log: a version, a JSON object, and a line for each source."""
    _, _, rest = content.partition(b"\n")
    head, _, sources = rest.partition(b"\n")
    try:
        planned_at = json.loads(head)["batchTimestampMs"]
    except (ValueError, KeyError, TypeError):
        return ""
    return hashlib.blake2b(f"{planned_at}\n".encode() + sources, digest_size=16).hexdigest()
