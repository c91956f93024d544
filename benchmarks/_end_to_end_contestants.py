"""The contestants of `end_to_end.py`, each as a program: name, servers, source topic, target topic, a folder of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

_PAYMENTS = "id long, card string, amount double, sent double"
_AT_ONCE = 100_000
"""Records in a micro-batch."""


def holdfast(servers: str, source: str, target: str, folder: Path) -> None:
    import holdfast as hf

    class Count(hf.DoFn):
        SEEN = hf.ValueStateSpec("seen", hf.VarIntCoder())

        def process(self, element: Any, seen: Any = hf.DoFn.StateParam(SEEN)) -> Any:
            card, payment = element
            count = (seen.read() or 0) + 1
            seen.write(count)
            yield card, payment.id, count, payment.sent

    spark = hf.session("end to end", cores=2)
    payments = hf.sources.Kafka(
        servers, source, value=hf.sources.Json(_PAYMENTS), start="earliest", max_per_trigger=_AT_ONCE
    )
    keyed = hf.keyed(payments.read(spark).main, key="card", value=["id", "sent"])
    counts = keyed.par_do(Count(), output="card string, id long, n long, sent double")
    job = hf.Job("end to end", checkpoint=str(folder / "checkpoint"), progress=False)
    job.write(counts, hf.sinks.Kafka(servers, target, key="card")).run()


def spark(servers: str, source: str, target: str, folder: Path) -> None:
    from pyspark.sql import functions as F

    import holdfast as hf

    session = hf.session("end to end", cores=2)
    read = session.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", source)
    records = read.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", _AT_ONCE).load()
    payments = records.select(F.from_json(F.col("value").cast("string"), _PAYMENTS).alias("p")).select("p.*")
    rows = payments.select(F.col("card").alias("key"), F.to_json(F.struct("card", "id", "sent")).alias("value"))
    write = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", target)
    write.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()


def bytewax(servers: str, source: str, target: str, folder: Path) -> None:
    import bytewax.operators as op
    from bytewax.connectors.kafka import KafkaSinkMessage
    from bytewax.connectors.kafka import operators as kafka
    from bytewax.dataflow import Dataflow
    from bytewax.testing import run_main

    def counted(count: int | None, payment: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        count = (count or 0) + 1
        return count, {"card": payment["card"], "id": payment["id"], "n": count, "sent": payment["sent"]}

    def by_card(message: Any) -> tuple[str, dict[str, Any]]:
        payment = json.loads(message.value)
        return payment["card"], payment

    flow = Dataflow("end_to_end")
    read = kafka.input("in", flow, brokers=[servers], topics=[source])
    counts = op.stateful_map("count", op.map("parse", read.oks, by_card), counted)
    made = op.map("made", counts, lambda pair: KafkaSinkMessage(pair[0].encode(), json.dumps(pair[1]).encode()))
    kafka.output("out", made, brokers=[servers], topic=target)
    run_main(flow)


def quix(servers: str, source: str, target: str, folder: Path) -> None:
    from quixstreams import Application

    app = Application(
        broker_address=servers,
        consumer_group=f"end-to-end-{source}",
        auto_offset_reset="earliest",
        state_dir=str(folder / "state"),
        use_changelog_topics=False,
        loglevel="WARNING",
    )

    def counted(payment: dict[str, Any], state: Any) -> dict[str, Any]:
        count = state.get("n", 0) + 1
        state.set("n", count)
        return {"card": payment["card"], "id": payment["id"], "n": count, "sent": payment["sent"]}

    read, write = (app.topic(name, value_serializer="json", value_deserializer="json") for name in (source, target))
    app.dataframe(read).apply(counted, stateful=True).to_topic(write)
    app.run()


if __name__ == "__main__":
    contestants = {"holdfast": holdfast, "spark": spark, "bytewax": bytewax, "quix": quix}
    name, servers, source, target, folder = sys.argv[1:]
    contestants[name](servers, source, target, Path(folder))
