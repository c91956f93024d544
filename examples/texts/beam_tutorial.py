"""A tutorial on stateful processing in Beam: its example, its production case and its three challenges.

What differs from the tutorial:
- the import lines name holdfast;
- the tutorial only describes the logins from Tokyo and New York, and sets the challenges: their code is written here;
- logins come in order of time (`requires_time_sorted_input=True`), without which "the last five" would mean any five.

    python examples/texts/beam_tutorial.py

    counter: ('tea', 1) ('tea', 2) ('rum', 1) ('tea', 3)
    travel: ('ann', 'Tokyo', 'New York')
    challenge 1: ('tea', 1) ('tea', 2) ('rum', 1) ('tea', 3)
    challenge 2: ('tea', 5.0) ('rum', 7.0)
    challenge 3: [5.0, 6.0, 8.0]
"""

from __future__ import annotations

import holdfast as beam
from holdfast.coders import BooleanCoder, FloatCoder, VarIntCoder
from holdfast.recipes import great_circle_km
from holdfast.state import BagStateSpec, ValueStateSpec
from holdfast.testing import TestStream, run


class StatefulCounterDoFn(beam.DoFn):
    # 1. Declare state cell at class level
    COUNT_STATE = ValueStateSpec("count_state", VarIntCoder())

    def process(self, element, count_state=beam.DoFn.StateParam(COUNT_STATE)):
        # Unpack key-value
        (key, value) = element  # noqa: RUF059

        # 2. Read current state value (defaults to None if empty)
        current_count = count_state.read() or 0

        # 3. Update state
        new_count = current_count + 1
        count_state.write(new_count)

        # Yield output
        yield (key, new_count)


class LastLoginsDoFn(beam.DoFn):
    """The production case: a bag with the last five logins; an alert if one is too far away for the time between."""

    LOGINS = BagStateSpec("logins")
    SPEED_KMH_MAX = 1000

    def process(self, element, time=beam.DoFn.TimestampParam, logins=beam.DoFn.StateParam(LOGINS)):
        user, (city, lat, lon) = element
        last = list(logins.read())[-5:]
        for known_city, known_lat, known_lon, known_time in last:
            hours = float(time - known_time) / 3600
            if great_circle_km(known_lat, known_lon, lat, lon) > self.SPEED_KMH_MAX * hours:
                yield (user, known_city, city)
        # A bag can only be appended to, so the oldest goes by writing the others anew.
        logins.clear()
        for login in [*last, (city, lat, lon, time)][-5:]:
            logins.add(login)


class KeyCounterDoFn(beam.DoFn):
    """Challenge 1: yields (key, running_count)."""

    COUNT = ValueStateSpec("count", VarIntCoder())

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        key, _ = element
        running_count = (count.read() or 0) + 1
        count.write(running_count)
        yield (key, running_count)


class DeduplicateDoFn(beam.DoFn):
    """Challenge 2: only the first occurrence of each key is yielded."""

    SEEN = ValueStateSpec("seen", BooleanCoder())

    def process(self, element, seen=beam.DoFn.StateParam(SEEN)):
        if not seen.read():
            seen.write(True)
            yield element


class TransactionBufferDoFn(beam.DoFn):
    """Challenge 3: when there are three transactions of a store, yields their list and clears both states."""

    TRANSACTIONS = BagStateSpec("transactions", FloatCoder())
    COUNT = ValueStateSpec("count", VarIntCoder())

    def process(self, element, transactions=beam.DoFn.StateParam(TRANSACTIONS), count=beam.DoFn.StateParam(COUNT)):
        _, amount = element
        transactions.add(amount)
        so_far = (count.read() or 0) + 1
        if so_far < 3:
            count.write(so_far)
        else:
            yield list(transactions.read())
            transactions.clear()
            count.clear()


ORDERS = [("tea", 5.0), ("tea", 6.0), ("rum", 7.0), ("tea", 8.0)]
TOKYO, NEW_YORK = ("Tokyo", 35.68, 139.69), ("New York", 40.71, -74.01)


def main() -> None:
    orders = TestStream().add_elements(ORDERS)
    print("counter:", *run(StatefulCounterDoFn(), orders).values)

    minutes = [(("ann", NEW_YORK), 10), (("ann", TOKYO), 0), (("bob", TOKYO), 0), (("bob", NEW_YORK), 14 * 60)]
    logins = [beam.TimestampedValue(login, minute * 60) for login, minute in minutes]
    stream = TestStream().add_elements(logins).advance_watermark_to_infinity()
    print("travel:", *run(LastLoginsDoFn(), stream, requires_time_sorted_input=True).values)

    print("challenge 1:", *run(KeyCounterDoFn(), orders).values)
    print("challenge 2:", *run(DeduplicateDoFn(), orders).values)
    print("challenge 3:", *run(TransactionBufferDoFn(), orders).values)


if __name__ == "__main__":
    main()
