"""What identifies a micro-batch: the id of its query, and its plan, which Spark writes before it runs."""

from __future__ import annotations

import hashlib
import json

from pyspark.sql import SparkSession

from holdfast.checkpoint.files.choice import join, read_file

__all__ = ["plan_of", "stored_query_id"]


def stored_query_id(spark: SparkSession | None, checkpoint: str) -> str | None:
    """The id of a checkpoint's query; None if it has not started yet."""
    content = read_file(spark, join(checkpoint, "metadata"))
    try:
        return None if content is None else str(json.loads(content)["id"])
    except (ValueError, KeyError, TypeError):
        # Spark itself refuses to start on damaged metadata.
        return None


def plan_of(spark: SparkSession | None, checkpoint: str, batch_id: int) -> str:
    """A digest of a micro-batch's plan: when it was planned, and each source's end offset. "" if there is none.

    A replay has the same digest. Spark's settings, which the plan also holds, are left out: a tool may alter them.
    """
    content = read_file(spark, join(checkpoint, "offsets", str(batch_id)))
    return "" if content is None else plan_digest(content)


def plan_digest(content: bytes) -> str:
    """The digest of a file of Spark's offset log: a version, a JSON object, and a line for each source."""
    _, _, rest = content.partition(b"\n")
    head, _, sources = rest.partition(b"\n")
    try:
        planned_at = json.loads(head)["batchTimestampMs"]
    except (ValueError, KeyError, TypeError):
        return ""
    return hashlib.blake2b(f"{planned_at}\n".encode() + sources, digest_size=16).hexdigest()
