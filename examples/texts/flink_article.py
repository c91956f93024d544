"""An article on state in Flink: rides of a taxi zone, time to live, checkpoints, savepoints.

What differs from the article:
- the dict of the first snippet is a cell for each zone, and `for event in stream` is what Holdfast does;
- the SQL with TUMBLE is a keyed stream in windows of an hour, as there is no SQL here; `num_trips` and `revenue` are a
  combiner each;
- `pyflink.` in the import lines is `holdfast.flink.`; the snippet's descriptor is given to a function to see it expire,
  whose cell has `read` and `write` for `value` and `update`;
- what is set on the environment is an argument of the job, with seconds or a text for milliseconds;
- the two commands are `holdfast savepoint JOB DEST` and `holdfast run -s SAVEPOINT -p 8 job.py`.

    python examples/texts/flink_article.py

    zones: (132, {'count': 1, 'total': 52.0}) (132, {'count': 2, 'total': 112.0}) (48, {'count': 1, 'total': 9.5})
    hours: 48: 1 9.5, 132: 1 45.0, 132: 2 112.0
    session: ('ann', None) ('ann', 'home') ('ann', None)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import holdfast as hf
from holdfast.flink.common import Duration, Types
from holdfast.flink.datastream.state import StateTtlConfig, ValueStateDescriptor
from holdfast.testing import TestStream, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HOUR = 3600


class Zone(hf.DoFn):
    """The dict of the first snippet: the state of a zone goes out with every ride."""

    ZONE = hf.ValueStateSpec("zone")

    def process(self, element, zone_state=hf.DoFn.StateParam(ZONE)):
        zone, event = element
        state = zone_state.read() or {"count": 0, "total": 0.0}
        state["count"] += 1
        state["total"] += event["total_amount"]
        zone_state.write(state)
        yield zone, state


PER_ZONE = {"num_trips": hf.Count(), "revenue": hf.Sum("total_amount")}
"""COUNT(*) AS num_trips, SUM(total_amount) AS revenue"""


def per_zone_and_hour(rides: DataFrame) -> DataFrame:
    """The SQL on Spark: GROUP BY PULocationID, over TUMBLE(TABLE rides, DESCRIPTOR(pickup_time), INTERVAL '1' HOUR)."""
    keyed = hf.keyed(rides, key="PULocationID", value=["total_amount"], timestamp="pickup_time", watermark="10 minutes")
    return keyed.window_into(hf.FixedWindows("1 hour")).combine_per_key(PER_ZONE)


def job(rides: DataFrame, folder: str) -> hf.Job:
    """Checkpoint every 60 seconds, 30 seconds between them, three failures tolerated; state in RocksDB, spilled to disk."""
    made = hf.Job(
        "rides",
        checkpoint=f"{folder}/flink-checkpoints",
        checkpoint_interval="60 seconds",
        min_pause="30 seconds",
        tolerable_failures=3,
        backend="rocksdb",
        state_dir=f"{folder}/flink-state",
        progress=False,
    )
    return made.write(per_zone_and_hour(rides), hf.sinks.Parquet(f"{folder}/zones"))


ttl_config = (
    StateTtlConfig.new_builder(Duration.of_hours(24))
    .set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)
    .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
    .build()
)

# Apply TTL to a value state descriptor
state_descriptor = ValueStateDescriptor("session_state", Types.STRING())
state_descriptor.enable_time_to_live(ttl_config)


class Session(hf.DoFn):
    """The page that a user saw last; nothing after a day of inactivity."""

    STATE = state_descriptor

    def process(self, element, state=hf.DoFn.StateParam(STATE)):
        user, page = element
        yield user, state.read()
        state.write(page)


RIDES = [(132, 52.0, 300), (132, 60.0, 3500), (132, 45.0, 3700), (48, 9.5, 600)]


def main() -> None:
    rides = [hf.TimestampedValue((zone, {"total_amount": total}), second) for zone, total, second in RIDES]
    first_hour = [ride for ride in rides if ride.timestamp < HOUR]
    print("zones:", *run(Zone(), TestStream().add_elements(first_hour)).values)

    stream = TestStream().add_elements(rides).advance_watermark_to(HOUR).advance_watermark_to(2 * HOUR)
    hours = run(hf.CombinePerKey(PER_ZONE), stream, windowing=hf.FixedWindows("1 hour"))
    found = sorted((zone, row["num_trips"], row["revenue"]) for zone, row in hours.values)
    print("hours:", ", ".join(f"{zone}: {trips} {revenue}" for zone, trips, revenue in found))

    visits = TestStream().add_elements([("ann", "home"), ("ann", "cart")])
    print("session:", *run(Session(), visits.advance_processing_time(24 * HOUR).add_elements([("ann", "home")])).values)


if __name__ == "__main__":
    main()
