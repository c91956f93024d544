"""Holdfast in ten seconds, in memory: payments with planted fraud through the velocity rule, with a crash half way."""

from __future__ import annotations

import random
import time

from velocity import Velocity

import holdfast as hf
from holdfast.testing import Results, TestStream, run

SEED = 7
CARDS = 300
MINUTES = 240


def payments(seed: int) -> tuple[list[tuple[float, str, float]], set[str]]:
    """(time, card, amount) in order of time, and the cards with planted fraud: six payments within a minute."""
    draw = random.Random(seed)
    honest = [
        (draw.uniform(0, MINUTES * 60), f"card-{draw.randrange(CARDS):03d}", round(draw.uniform(3, 90), 2))
        for _ in range(CARDS * 10)
    ]
    stolen = {f"card-{number:03d}" for number in draw.sample(range(CARDS), 8)}
    fraud = []
    for card in sorted(stolen):
        begin = draw.uniform(600, MINUTES * 60 - 600)
        fraud += [(begin + draw.uniform(0, 60), card, round(draw.uniform(200, 900), 2)) for _ in range(6)]
    return sorted(honest + fraud), stolen


def script(stream: list[tuple[float, str, float]], crash_at: int | None) -> TestStream:
    """A bundle a minute; the watermark follows ten seconds behind."""
    test_stream = TestStream()
    for minute in range(MINUTES):
        bundle = [p for p in stream if minute * 60 <= p[0] < (minute + 1) * 60]
        test_stream.add_elements([hf.TimestampedValue((card, amount), paid_at) for paid_at, card, amount in bundle])
        test_stream.advance_watermark_to((minute + 1) * 60 - 10)
        if minute == crash_at:
            test_stream.crash()
    return test_stream


def main() -> None:
    stream, stolen = payments(SEED)
    print(f"{len(stream):,} payments of {CARDS} cards in {MINUTES // 60} hours (seed {SEED}), {len(stolen)} cards stolen")
    start = time.perf_counter()
    out = run(Velocity(), script(stream, crash_at=MINUTES // 2))
    seconds = time.perf_counter() - start
    undisturbed = run(Velocity(), script(stream, crash_at=None))
    show(out, stolen)
    print(f"\nhalf way all memory was lost and came back from {out.metrics.delta_bytes:,} bytes of log:")
    print(f"  same alerts as a run without the crash: {out.values == undisturbed.values}")
    print(f"  {out.metrics.elements:,} payments, {out.metrics.timers_fired:,} timers in {seconds:.2f} s")


def show(out: Results, stolen: set[str]) -> None:
    print("\nalerts: five payments within three minutes")
    for value, timestamp, _, _ in out:
        card, count, total = value
        clock = time.strftime("%H:%M:%S", time.gmtime(int(timestamp)))
        print(f"  {clock}  {card}  {count} payments, {total:8.2f}  {'stolen' if card in stolen else 'FALSE ALARM'}")
    found = {value[0] for value in out.values}
    print(f"  precision {len(found & stolen)}/{len(found)}, recall {len(found & stolen)}/{len(stolen)}")
    print(f"\nstate at the end: {len(out.keys())} of {CARDS} cards are remembered, the others have been quiet; one of them:")
    for card in sorted(out.keys())[:1]:
        for name, value in out.state(card).items():
            print(f"  {card}  {name}: {[(str(at), paid) for at, paid in value]}")
        for name, _, _, at in out.timers(card):
            print(f"  {card}  timer {name!r} is set for {at}")


if __name__ == "__main__":
    main()
