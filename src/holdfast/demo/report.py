"""What the demo's job found, shown, and judged: beside the rules worked out by hand, and beside what was planted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.demo.by_hand import Finding, by_hand
from holdfast.demo.folder import Folder, Row
from holdfast.demo.payments import Payment, Planted

__all__ = ["RULES", "Verdict", "print_table", "report"]

RULES = ("velocity", "travel")
SHOWN = 5
"""How many rows of each table are shown."""


def report(folder: Folder, payments: list[Payment], planted: Planted) -> bool:
    """Shows what the job found; says whether it is right."""
    alerts = folder.rows("SELECT at, card, rule, what FROM alerts ORDER BY at, card")
    letters = folder.rows("SELECT at, payment, rule, error FROM dead_letters ORDER BY at, rule")
    show_some("alerts", ("time", "card", "rule", "what"), alerts)
    show_some("dead letters", ("time", "payment", "rule", "error"), letters)
    wanted_alerts, wanted_letters = by_hand(payments)
    verdicts = [
        *(verdict("alerts", rule, alerts, wanted_alerts, planted.cards[rule]) for rule in RULES),
        *(verdict("dead letters", rule, letters, wanted_letters, planted.malformed[rule]) for rule in RULES),
    ]
    print("\ncompared with the rules by hand (lost, doubled, invented) and with what was planted (precision, recall):")
    print_table(("", "rule", "rows", "lost", "doubled", "invented", "precision", "recall"), [v.row for v in verdicts])
    is_right = all(verdict.is_right for verdict in verdicts)
    print(f"\n{'All is right.' if is_right else 'This is WRONG.'}")
    return is_right


def verdict(
    table: str, rule: str, rows: Sequence[Row], wanted: Sequence[Finding], planted: frozenset[str] | frozenset[int]
) -> Verdict:
    """On what a table has of a rule."""
    return Verdict(table, rule, of_rule(rule, findings(rows)), of_rule(rule, wanted), planted)


def findings(rows: Sequence[Row]) -> list[Finding]:
    return [(rule, which, at[:19]) for at, which, rule, _ in rows]


def of_rule(rule: str, found: Sequence[Finding]) -> list[Finding]:
    return [one for one in found if one[0] == rule]


@dataclass(frozen=True)
class Verdict:
    """What a table has of a rule, beside what it must have, and beside the cards or payments that were planted."""

    table: str
    rule: str
    got: Sequence[Finding]
    wanted: Sequence[Finding]
    planted: frozenset[str] | frozenset[int]

    @property
    def is_right(self) -> bool:
        """Nothing is lost, doubled or invented, and all that was planted is found."""
        return sorted(self.got) == sorted(self.wanted) and self.planted <= {which for _, which, _ in self.got}

    @property
    def row(self) -> tuple[object, ...]:
        got, wanted = set(self.got), set(self.wanted)
        counts = len(self.got), len(wanted - got), len(self.got) - len(got), len(got - wanted)
        found = {which for _, which, _ in got}
        hits = len(found & self.planted)
        return self.table, self.rule, *counts, f"{hits / max(len(found), 1):.2f}", f"{hits / len(self.planted):.2f}"


def show_some(name: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """The first rows of what was found."""
    print(f"\n{len(rows)} {name}, of which the first are:")
    print_table(columns, [(at[11:19], *rest) for at, *rest in rows[:SHOWN]])


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as what is in them; numbers to the right."""
    texts = [[str(value) for value in row] for row in [columns, *rows]]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    right = [all(is_number(row[place]) for row in texts[1:]) for place in range(len(columns))]
    for row in texts:
        cells = [t.rjust(w) if r else t.ljust(w) for t, w, r in zip(row, widths, right, strict=True)]
        print(f"  {'  '.join(cells)}".rstrip())


def is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()
