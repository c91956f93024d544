"""Side inputs that are streams, beside a plain model: who is given what, and when."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import DoFn, FixedWindows, GlobalWindows, SlidingWindows, TimestampedValue
from holdfast.model.functions.lookup import Lookup, SideRows
from holdfast.model.time.timestamps import MAX_TIMESTAMP, Duration
from holdfast.testing import TestStream, run
from tiers import examples

NAMES = ("models", "limits")
FOREVER = float(MAX_TIMESTAMP)


class Told(DoFn):
    """Tells everything that a call is given."""

    def process(self, element, models, limits=None, key=DoFn.KeyParam, at=DoFn.TimestampParam, window=DoFn.WindowParam):
        assert key == element[0]
        views = [None if view is None else view.get(key, "nothing") for view in (models, limits)]
        yield key, element[1], round(float(at)), (float(window.start), float(window.end)), tuple(views)


class Model:
    """The same with dicts and lists, window by window."""

    def __init__(self, main, side, waits, lateness):
        self.main, self.side, self.waits, self.lateness = main, side, waits, lateness
        self.watermark = -FOREVER
        self.newest = defaultdict(dict)
        self.waiting = defaultdict(list)
        self.given = defaultdict(list)
        self.late = 0

    def windows(self, origin, time):
        """The windows of the step that an element or a row is in, and for each the element's own."""
        assign = lambda fn, at: [(float(w.start), float(w.end)) for w in fn.assign(fn.AssignContext(at))]  # noqa: E731
        if origin:
            return [(window, None) for window in assign(self.side, time)]
        if self.main == self.side:
            return [(window, window) for window in assign(self.main, time)]
        [own] = assign(self.main, time)
        if isinstance(self.side, GlobalWindows):
            return [(assign(self.side, time)[0], own)]
        return [(min(assign(self.side, own[1] - 0.000001)), own)]

    def is_over(self, window):
        return not isinstance(self.side, GlobalWindows) and window[1] + self.lateness <= self.watermark

    def add(self, elements):
        groups = defaultdict(list)
        for key, origin, value, time in elements:
            for window, own in self.windows(origin, time):
                if self.is_over(window):
                    self.late += 1
                else:
                    groups[key, window].append((origin, value, time, own))
        for place, group in groups.items():
            for origin, value, time, _ in group:
                held = self.newest[place].get(origin)
                if origin and (held is None or time >= held[0]):
                    self.newest[place][origin] = (time, value)
            self.release(place)
            self.waiting[place] += [(time, value, own) for origin, value, time, own in group if not origin]
            self.release(place, by_time=False)
            self.release(place)

    def advance(self, watermark):
        self.watermark = watermark
        for place in list(self.waiting):
            self.release(place)
        for place in [place for place in [*self.waiting, *self.newest] if self.is_over(place[1])]:
            self.waiting.pop(place, None)
            self.newest.pop(place, None)

    def release(self, place, by_time=True):
        key, window = place
        rows = self.newest[place]
        missing = [wait for origin, wait in enumerate(self.waits, start=1) if origin not in rows]

        def is_due(time):
            if not missing or all(wait == 0 for wait in missing):
                return True
            ends = not isinstance(self.side, GlobalWindows) and window[1] <= self.watermark
            bounded = None not in missing and time + max(missing) <= self.watermark
            return by_time and (ends or bounded or self.watermark == FOREVER)

        waiting = sorted(self.waiting[place], key=lambda held: held[0]) if by_time else self.waiting[place]
        self.waiting[place] = [held for held in waiting if not is_due(held[0])]
        views = tuple(rows[n][1] if n in rows else "nothing" for n in range(1, len(self.waits) + 1))
        views += (None,) * (2 - len(views))
        for time, value, own in waiting:
            if is_due(time):
                self.given[place].append((key, value, time, own, views))


WINDOWS = [
    (FixedWindows(10), FixedWindows(10)),
    (SlidingWindows(10, 5), SlidingWindows(10, 5)),
    (FixedWindows(5), FixedWindows(20)),
    (FixedWindows(5), SlidingWindows(20, 10)),
    (FixedWindows(20), FixedWindows(5)),
    (GlobalWindows(), GlobalWindows()),
    (FixedWindows(10), GlobalWindows()),
]
ELEMENT = st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 9), st.integers(0, 40))
EVENT = st.one_of(st.lists(ELEMENT, max_size=6), st.integers(1, 15), st.just("crash"))


@given(
    windows=st.sampled_from(WINDOWS),
    waits=st.lists(st.sampled_from([None, 0, 3, 12]), min_size=1, max_size=2),
    lateness=st.sampled_from([0, 7]),
    events=st.lists(EVENT, max_size=12),
    ends=st.booleans(),
)
@settings(deadline=None, max_examples=examples(300))
def test_elements_are_given_what_the_plain_model_says(windows, waits, lateness, events, ends):
    main, side = windows
    if isinstance(side, GlobalWindows):
        waits = [5 if wait is None else wait for wait in waits]
    model = Model(main, side, waits, lateness)
    stream, watermark = TestStream(), 0
    for event in events:
        if event == "crash":
            stream.crash()
        elif isinstance(event, int):
            watermark += event
            stream.advance_watermark_to(watermark)
            model.advance(watermark)
        else:
            kept = [element for element in event if element[1] <= len(waits)]
            stream.add_elements([TimestampedValue((key, (origin, value)), time) for key, origin, value, time in kept])
            model.add(kept)
    if ends:
        stream.advance_watermark_to_infinity()
        model.advance(FOREVER)
    sides = [
        SideRows(name, side, wait=None if wait is None else Duration(wait)) for name, wait in zip(NAMES, waits, strict=False)
    ]
    out = run(Lookup(Told(), sides), stream, windowing=main, allowed_lateness=lateness)
    assert sorted(map(repr, out.values)) == sorted(repr(told) for given in model.given.values() for told in given)
    by_place = defaultdict(list)
    for key, value, time, own, views in out.values:
        [(window, _)] = [pair for pair in model.windows(0, time) if pair[1] == own]
        by_place[key, window].append((key, value, time, own, views))
    assert by_place == {place: told for place, told in model.given.items() if told}
    assert out.metrics.late == model.late
