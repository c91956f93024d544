"""Two jobs over payments, with a cell of every kind, and what makes a checkpoint of each.

A checkpoint that this made with an earlier version is kept in this folder. Run it to make one with the version at hand:

    python -m tests.stored.jobs NEW-FOLDER
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
from pathlib import Path

import holdfast as hf
from holdfast.ops import savepoint_create

KEY_GROUPS = 2

# (card, amount, shop, seconds): the second part comes after the checkpoint was made.
PARTS = (
    [("a", 10, "x", 0), ("b", 5, "y", 1), ("a", 20, "y", 5), ("ü", 7, "x", 6), ("a", 30, "x", 70), ("b", 1, "z", 75)],
    [("a", 40, "z", 80), ("c", 2, "x", 90), ("b", 6, "y", 100), ("ü", 8, "y", 110), ("a", 50, "x", 400), ("d", 1, "x", 900)],
)


class EveryCell(hf.DoFn):
    """Tells all that it remembers of a card, so that nothing can be forgotten unseen."""

    COUNT = hf.ReadModifyWriteStateSpec("count", hf.VarIntCoder())
    FIRST = hf.ReadModifyWriteStateSpec("first")
    AMOUNTS = hf.BagStateSpec("amounts", hf.VarIntCoder())
    SHOPS = hf.SetStateSpec("shops", hf.StrUtf8Coder())
    BY_SHOP = hf.MapStateSpec("by_shop", hf.StrUtf8Coder(), hf.VarIntCoder())
    RECENT = hf.OrderedListStateSpec("recent", hf.VarIntCoder())
    TOTAL = hf.CombiningValueStateSpec("total", hf.VarIntCoder(), hf.Sum())
    FORGOTTEN = hf.ReadModifyWriteStateSpec("forgotten", hf.VarIntCoder(), ttl=hf.Ttl(60, time="event"))
    QUIET = hf.TimerSpec("quiet", hf.TimeDomain.WATERMARK)

    def process(
        self,
        element,
        timestamp=hf.DoFn.TimestampParam,
        count=hf.DoFn.StateParam(COUNT),
        first=hf.DoFn.StateParam(FIRST),
        amounts=hf.DoFn.StateParam(AMOUNTS),
        shops=hf.DoFn.StateParam(SHOPS),
        by_shop=hf.DoFn.StateParam(BY_SHOP),
        recent=hf.DoFn.StateParam(RECENT),
        total=hf.DoFn.StateParam(TOTAL),
        forgotten=hf.DoFn.StateParam(FORGOTTEN),
        quiet=hf.DoFn.TimerParam(QUIET),
    ):
        card, (amount, shop) = element
        count.write((count.read() or 0) + 1)
        if first.read() is None:
            first.write({"amount": amount, "shop": shop, "at": timestamp})
        amounts.add(amount)
        shops.add(shop)
        by_shop.put(shop, (by_shop.get(shop) or 0) + amount)
        recent.add((timestamp, amount))
        total.add(amount)
        seen = forgotten.read()
        forgotten.write((seen or 0) + 1)
        quiet.set(timestamp + 120)
        remembered = {
            "count": count.read(),
            "first": [first.read()["amount"], first.read()["shop"], str(first.read()["at"])],
            "amounts": sorted(amounts.read()),
            "shops": sorted(shops.read()),
            "by_shop": dict(sorted(by_shop.items())),
            "recent": [(str(at), value) for at, value in recent.read()],
            "total": total.read(),
            "forgotten": seen,
        }
        yield card, json.dumps(remembered, ensure_ascii=False)

    @hf.on_timer(QUIET)
    def on_quiet(self, key=hf.DoFn.KeyParam, timestamp=hf.DoFn.TimestampParam, count=hf.DoFn.StateParam(COUNT)):
        yield key, f"quiet at {timestamp} after {count.read()}"


def write_part(folder, part):
    """Puts a part of the payments where the jobs read them."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"card": c, "amount": a, "shop": s, "at": t}) for c, a, s, t in PARTS[part]]
    (folder / f"{part}.json").write_text("\n".join(lines), encoding="utf-8")


def payments(spark, folder):
    rows = spark.readStream.schema("card string, amount long, shop string, at long").json(str(folder))
    return rows.selectExpr("card", "amount", "shop", "timestamp_seconds(at) AS at")


def every_cell(spark, folder, checkpoint, sink):
    stream = hf.keyed(payments(spark, folder), key="card", value=["amount", "shop"], timestamp="at", watermark="10 seconds")
    out = stream.par_do(EveryCell(), output="card string, told string", key_groups=KEY_GROUPS)
    return _job("every-cell", out, checkpoint, sink)


def sessions(spark, folder, checkpoint, sink):
    stream = hf.keyed(payments(spark, folder), key="card", value="amount", timestamp="at", watermark="10 seconds")
    sums = stream.window_into(hf.Sessions(60)).combine_per_key(hf.Sum(), output="total long", key_groups=KEY_GROUPS)
    return _job("sessions", sums, checkpoint, sink)


def _job(name, out, checkpoint, sink):
    job = hf.Job(name=name, checkpoint=str(checkpoint), trigger="available now", progress=False)
    job.write(out, sink)
    return job


JOBS = {"every-cell": every_cell, "sessions": sessions}


def rows_of(spark, name, folder, checkpoint):
    """What a run of a job gives for what is new in a folder."""
    sink = hf.sinks.Collect()
    JOBS[name](spark, folder, checkpoint, sink).run()
    return [str(tuple(row)) for row in sink.rows]


def main(folder):
    spark = hf.session(cores=2)
    for name in JOBS:
        home = folder / name
        write_part(home / "in", 0)
        rows_of(spark, name, home / "in", home / "checkpoint")
        savepoint_create(spark, str(home / "checkpoint"), str(home / "savepoint"))
        shutil.rmtree(home / "in")
        with tarfile.open(folder / f"{name}.tar.gz", "w:gz") as archive:
            archive.add(home, name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
