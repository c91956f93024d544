"""What the state of the payments must be after each micro-batch, worked out without Holdfast."""

from __future__ import annotations

from .payments import rows_of_batch

WINDOW = 600
LATENESS = 60
DELAY = 10


def states(files: int) -> list[dict[tuple[str, str, int | None, str], object]]:
    """For each micro-batch: from (step, card, start of the window, cell) to the value, as Python would read it.

    Each file is a micro-batch; after the last there is one without input, which the watermark of the last brings about.
    """
    windows: dict[tuple[str, int], list[tuple[int, int]]] = {}
    emitted: dict[str, int] = {}
    found = []
    watermark = latest = 0
    for batch in range(files + 1):
        # A micro-batch runs with the watermark of the ones before it.
        watermark = max(watermark, latest - DELAY)
        for card, amount, second in rows_of_batch(batch) if batch < files else ():
            start = second // WINDOW * WINDOW
            if start + WINDOW + LATENESS <= watermark:
                continue
            held = windows.setdefault((card, start), [])
            held.append((second, amount))
            emitted[card] = emitted.get(card, 0) + len(held)
            latest = max(latest, second)
        windows = {place: held for place, held in windows.items() if place[1] + WINDOW + LATENESS > watermark}
        found.append(_cells(windows, emitted, watermark))
    return found


def _cells(windows, emitted, watermark):
    cells: dict[tuple[str, str, int | None, str], object] = {}
    for (card, start), held in windows.items():
        amounts = [amount for _, amount in held]
        by_kind: dict[str, int] = {}
        for amount in amounts:
            by_kind[f"kind {amount % 3}"] = by_kind.get(f"kind {amount % 3}", 0) + 1
        kept = {
            "count": len(held),
            "amounts": amounts,
            "kinds": sorted({f"kind {amount % 3}" for amount in amounts}),
            "by_kind": by_kind,
            "times": sorted(held, key=lambda pair: pair[0]),
            "total": sum(amounts),
        }
        due = held[-1][0] + 300
        if due > watermark:
            kept["due"] = due
        cells.update({("everything", card, start, name): value for name, value in kept.items()})
    for card, total in emitted.items():
        cells[("running", card, None, "total")] = total
    return cells
