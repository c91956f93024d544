"""What a project with a recipe begins with: arguments, a few elements, and what comes out of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["BEGINNINGS", "Beginning"]


@dataclass(frozen=True)
class Beginning:
    """A recipe with what its project needs. Times of elements are seconds, and no two are the same."""

    recipe: str
    """The name of its class."""
    cls: str
    """The name of the project's own class."""
    summary: str
    """What the project does, after "a project that"."""
    arguments: str
    """Of the recipe, as code."""
    key: str
    """The column of the key, with its type."""
    values: str
    """The other columns but `at`, with their types."""
    elements: tuple[tuple[Any, Any, int], ...]
    """Key, value, second. A value that is a dict is a row."""
    wanted: str
    """What comes out in memory, as code, a line for each."""
    keys: tuple[Any, ...]
    """The keys of what comes out."""
    results: str
    """The schema of what comes out; of a combiner, without the key."""
    windows: str = ""
    window_seconds: int = 0
    """How long a window is, if there are any."""
    functions: str = ""
    """Code that the arguments name."""


_VISITS = (("ann", "home", 0), ("bob", "home", 10), ("ann", "cart", 50), ("ann", "home", 4000))
_ORDERS = (("o-1", "new", 0), ("o-1", "again", 50), ("o-2", "new", 60), ("o-1", "much later", 4000))
_CALLS = (("ann", "call 0", 0), ("ann", "call 1", 1), ("ann", "call 2", 2), ("ann", "call 61", 61))
_LET_THROUGH = '("ann", "call 0"),\n("ann", "call 1"),\n("ann", "call 61"),'
_TRADES = (
    ("ACME", {"price": 10.0, "volume": 1}, 0),
    ("ACME", {"price": 20.0, "volume": 3}, 30),
    ("ACME", {"price": 30.0, "volume": 1}, 70),
)

_TRANSITIONS = """TRANSITIONS = {
    ("new", "pay"): "paid",
    ("new", "cancel"): "cancelled",
    ("paid", "ship"): "shipped",
}"""

BEGINNINGS = (
    Beginning(
        "RunningCount",
        "VisitCount",
        "counts the visits of each user",
        "",
        "user string",
        "page string",
        _VISITS,
        '("ann", 1),\n("bob", 1),\n("ann", 2),\n("ann", 3),',
        ("ann", "ann", "ann", "bob"),
        "user string, visits long",
    ),
    Beginning(
        "CountWhileActive",
        "ActiveCount",
        "counts the visits of each user, and starts again after an hour of silence",
        '"1 hour"',
        "user string",
        "page string",
        _VISITS,
        '("ann", 1),\n("bob", 1),\n("ann", 2),\n("ann", 1),',
        ("ann", "ann", "ann", "bob"),
        "user string, visits long",
    ),
    Beginning(
        "AssignIndex",
        "NumberedPages",
        "numbers the pages that each user visits",
        "",
        "user string",
        "page string",
        _VISITS,
        '("ann", 0, "home"),\n("bob", 0, "home"),\n("ann", 1, "cart"),\n("ann", 2, "home"),',
        ("ann", "ann", "ann", "bob"),
        "user string, number long, page string",
    ),
    Beginning(
        "FirstOccurrence",
        "FirstOrder",
        "lets the first event of each order through, and no other",
        "",
        "order_id string",
        "status string",
        _ORDERS,
        '("o-1", "new"),\n("o-2", "new"),',
        ("o-1", "o-2"),
        "order_id string, status string",
    ),
    Beginning(
        "FirstOccurrenceWithin",
        "FirstInAnHour",
        "drops what comes again for an order within an hour",
        '"1 hour"',
        "order_id string",
        "status string",
        _ORDERS,
        '("o-1", "new"),\n("o-2", "new"),\n("o-1", "much later"),',
        ("o-1", "o-1", "o-2"),
        "order_id string, status string",
    ),
    Beginning(
        "CountLimit",
        "CallLimit",
        "lets two calls of a user through in each minute",
        "2",
        "user string",
        "call string",
        _CALLS,
        _LET_THROUGH,
        ("ann", "ann", "ann"),
        "user string, call string",
        'hf.FixedWindows("1 minute")',
        60,
    ),
    Beginning(
        "SlidingLimit",
        "CallLimit",
        "lets two calls of a user through in any minute, wherever it begins",
        '2, per="1 minute"',
        "user string",
        "call string",
        _CALLS,
        _LET_THROUGH,
        ("ann", "ann", "ann"),
        "user string, call string",
    ),
    Beginning(
        "TokenBucket",
        "CallLimit",
        "lets a user make two calls at once, and one every half minute in the long run",
        '2, refill="30 seconds"',
        "user string",
        "call string",
        _CALLS,
        _LET_THROUGH,
        ("ann", "ann", "ann"),
        "user string, call string",
    ),
    Beginning(
        "GroupIntoBatches",
        "Batches",
        "sends mails in twos, or alone after five seconds",
        '2, max_wait="5 seconds"',
        "server string",
        "mail string",
        (("smtp", "hello", 0), ("smtp", "how are you", 1), ("smtp", "bye", 2)),
        '("smtp", ["hello", "how are you"]),\n("smtp", ["bye"]),',
        ("smtp", "smtp"),
        "server string, mails array<string>",
    ),
    Beginning(
        "ClickTrail",
        "Visits",
        "gives the pages of each visit, once it has been over for half an hour",
        '"30 minutes"',
        "user string",
        "page string",
        (("ann", "home", 0), ("ann", "cart", 60), ("ann", "home", 4000)),
        '("ann", 0, 60, ["home", "cart"]),\n("ann", 4000, 4000, ["home"]),',
        ("ann", "ann"),
        "user string, first_at timestamp, last_at timestamp, pages array<string>",
    ),
    Beginning(
        "ImpossibleTravel",
        "Travel",
        "finds logins too far apart for the time between them",
        'place="city"',
        "user string",
        "city string, lat double, lon double",
        (
            ("ann", {"city": "Tokyo", "lat": 35.68, "lon": 139.69}, 0),
            ("ann", {"city": "New York", "lat": 40.71, "lon": -74.01}, 600),
            ("ann", {"city": "Boston", "lat": 42.36, "lon": -71.06}, 90000),
        ),
        '("ann", "Tokyo", "New York", pytest.approx(10_850, abs=30), 600),',
        ("ann",),
        "user string, before string, now string, km double, seconds double",
    ),
    Beginning(
        "Anomalies",
        "Unusual",
        "finds payments that are unusual for their user",
        "threshold=4, model=recipes.Moments(warmup=5), learns_anomalies=False",
        "user string",
        "amount double",
        tuple(("ann", float(amount), second) for second, amount in enumerate([10, 11, 9, 10, 10, 11, 500, 10, 10])),
        '("ann", 5, pytest.approx(1.41, abs=0.01), False),\n("ann", 6, pytest.approx(650, abs=1), True),\n'
        '("ann", 7, pytest.approx(0.22, abs=0.01), False),',
        ("ann", "ann", "ann"),
        "user string, at timestamp, score double, is_anomaly boolean",
    ),
    Beginning(
        "RollingAlert",
        "TooHot",
        "alerts when a machine is too hot, and when it has cooled down",
        "15, above=88, below=84",
        "machine string",
        "celsius double",
        (("boiler", 80.0, 0), ("boiler", 100.0, 10), ("boiler", 96.0, 20), ("boiler", 70.0, 30), ("boiler", 99.0, 100)),
        '("boiler", "alert", 10, 90.0),\n("boiler", "recovered", 30, 83.0),\n("boiler", "alert", 100, 99.0),\n'
        '("boiler", "silent", 115, None),',
        ("boiler",) * 4,
        "machine string, word string, at timestamp, average double",
    ),
    Beginning(
        "Vwap",
        "MinutePrice",
        "gives the volume-weighted price of each instrument and minute",
        'price="price", volume="volume"',
        "instrument string",
        "price double, volume long",
        _TRADES,
        '("ACME", 17.5),\n("ACME", 30.0),',
        ("ACME", "ACME"),
        "vwap double",
        'hf.FixedWindows("1 minute")',
        60,
    ),
    Beginning(
        "MovingPrices",
        "MinuteAverage",
        "gives with each trade the average prices of the last minute",
        '"1 minute"',
        "instrument string",
        "price double, volume long",
        _TRADES,
        '("ACME", 0, 10.0, 10.0, 1),\n("ACME", 30, 15.0, 17.5, 2),\n("ACME", 70, 25.0, 22.5, 2),',
        ("ACME", "ACME", "ACME"),
        "instrument string, at timestamp, mean double, vwap double, trades int",
    ),
    Beginning(
        "DecayingFeatures",
        "Interests",
        "follows what each user is interested in, with old interest fading",
        'half_life="1 minute"',
        "user string",
        "topic string",
        (("ann", "tea", 0), ("ann", "tea", 60), ("ann", "rum", 120)),
        '("ann", 0, {"tea": 1.0}),\n("ann", 60, {"tea": 1.5}),\n("ann", 120, {"rum": 1.0, "tea": 0.75}),',
        ("ann", "ann", "ann"),
        "user string, at timestamp, weights map<string, double>",
    ),
    Beginning(
        "ZoneRides",
        "HourlyRides",
        "sums up the taxi rides of each zone by the hour",
        'total="total_amount"',
        "zone int",
        "total_amount double",
        ((132, {"total_amount": 52.0}, 300), (48, {"total_amount": 9.5}, 600), (132, {"total_amount": 60.0}, 3500)),
        "(48, (1, 9.5, 9.5, 9.5)),\n(132, (2, 112.0, 56.0, 60.0)),",
        (48, 132),
        "totals struct<num_trips: long, revenue: double, mean_total: double, largest_total: double>",
        'hf.FixedWindows("1 hour")',
        3600,
    ),
    Beginning(
        "TopItems",
        "TopPages",
        "finds the two pages that are seen most in each shop and hour",
        '2, "page"',
        "shop string",
        "page string",
        tuple(("shop-1", {"page": page}, second) for second, page in enumerate(["tea", "rum", "tea", "gin", "rum"])),
        '("shop-1", [("rum", 2), ("tea", 2)]),',
        ("shop-1",),
        "top array<struct<item: string, total: long>>",
        'hf.FixedWindows("1 hour")',
        3600,
    ),
    Beginning(
        "TemporalJoin",
        "WithRate",
        "gives each order the exchange rate of its own time",
        'row=["amount"], table=["rate"]',
        "currency string",
        "side string, amount double, rate double",
        (
            ("eur", {"side": "table", "rate": 1.1}, 0),
            ("eur", {"side": "order", "amount": 100.0}, 10),
            ("eur", {"side": "order", "amount": 200.0}, 15),
            ("eur", {"side": "table", "rate": 1.2}, 20),
            ("eur", {"side": "order", "amount": 300.0}, 30),
        ),
        '("eur", 100.0, 1.1),\n("eur", 200.0, 1.1),\n("eur", 300.0, 1.2),',
        ("eur", "eur", "eur"),
        "currency string, amount double, rate double",
    ),
    Beginning(
        "Sequence",
        "Purchases",
        "finds who pays within ten minutes of filling the basket, and did not empty it",
        'is_add, is_pay, within="10 minutes", unless=is_remove',
        "user string",
        "what string",
        (
            ("ann", "add", 0),
            ("ann", "pay", 60),
            ("ann", "add", 100),
            ("ann", "remove", 120),
            ("ann", "pay", 130),
            ("bob", "add", 140),
        ),
        '("ann", 0, "add", 60, "pay"),',
        ("ann",),
        "user string, began timestamp, first string, ended timestamp, last string",
        functions="\n\n\n".join(
            f'def is_{what}(value: object) -> bool:\n    return value == "{what}"' for what in ("add", "pay", "remove")
        ),
    ),
    Beginning(
        "StateMachine",
        "OrderState",
        "follows each order from state to state, by a table of transitions",
        'TRANSITIONS, "new"',
        "order_id string",
        "event string",
        (("o-1", "pay", 0), ("o-1", "ship", 10), ("o-2", "pay", 20)),
        '("o-1", "new", "pay", "paid"),\n("o-1", "paid", "ship", "shipped"),\n("o-2", "new", "pay", "paid"),',
        ("o-1", "o-1", "o-2"),
        "order_id string, before string, event string, after string",
        functions=_TRANSITIONS,
    ),
)
