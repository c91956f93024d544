"""Limits of a step: every limit with every policy."""

from __future__ import annotations

import pytest

import holdfast as hf
from holdfast.testing import TestStream

EVICTING = ["evict_lru", "evict_oldest"]


class Count(hf.DoFn):
    """16 bytes a key."""

    SEEN = hf.ValueStateSpec("seen", hf.VarIntCoder())

    def process(self, element, seen=hf.DoFn.StateParam(SEEN)):
        key, do = element
        if do == "clear":
            seen.clear()
        elif do != "read":
            seen.write((seen.read() or 0) + 1)
        yield key, seen.read()


class Collect(hf.DoFn):
    """A bag of texts: 8 bytes and their length each."""

    BAG = hf.BagStateSpec("bag", hf.StrUtf8Coder())

    def process(self, element, bag=hf.DoFn.StateParam(BAG)):
        for text in element[1].split():
            bag.add(text)
        yield element[0], len(bag.read())


def each(*keys, do=1):
    return [(key, do) for key in keys]


def one_by_one(*keys, crash=False):
    stream = TestStream()
    for key in keys:
        stream.add_elements(each(key))
        if crash:
            stream.crash()
    return stream


def failure(run, *args, **options):
    with pytest.raises(hf.LimitExceeded) as caught:
        run(*args, **options)
    return str(caught.value)


class TestMaxKeys:
    def test_within_the_limit_nothing_happens(self, run):
        for policy in ("fail", "evict_lru", "evict_oldest", "over_limit"):
            results = run(Count(), TestStream().add_elements(each(*"abc")), limits=hf.Limits(max_keys=3, policy=policy))
            assert results.keys() == ["a", "b", "c"]

    def test_fail(self, run):
        said = failure(run, Count(), one_by_one(*"abc"), limits=hf.Limits(max_keys=2), name="counting")
        assert "The step 'counting' is over its limit: max_keys is 2." in said
        assert "The step has 3 keys" in said
        assert "'a' with 16, 'b' with 16, 'c' with 16" in said

    @pytest.mark.parametrize("crash", [False, True])
    def test_lru(self, run, crash):
        limits = hf.Limits(max_keys=3, policy="evict_lru")
        results = run(Count(), one_by_one(*"abcad", crash=crash), limits=limits)
        assert results.keys() == ["a", "c", "d"]
        assert results.state("a") == {"seen": 2}
        assert results.metrics.keys_evicted == 1

    @pytest.mark.parametrize("crash", [False, True])
    def test_oldest(self, run, crash):
        limits = hf.Limits(max_keys=3, policy="evict_oldest")
        results = run(Count(), one_by_one(*"abcad", crash=crash), limits=limits)
        assert results.keys() == ["b", "c", "d"]

    def test_a_read_is_a_use(self, run):
        stream = one_by_one(*"abc").add_elements(each("a", do="read")).crash().add_elements(each("d"))
        assert run(Count(), stream, limits=hf.Limits(max_keys=3, policy="evict_lru")).keys() == ["a", "c", "d"]

    @pytest.mark.parametrize("policy", EVICTING)
    def test_of_equal_age_the_order_of_keys_decides(self, run, policy):
        results = run(Count(), TestStream().add_elements(each(*"dbcae")), limits=hf.Limits(max_keys=2, policy=policy))
        assert results.keys() == ["d", "e"]
        assert results.metrics.keys_evicted == 3

    @pytest.mark.parametrize("policy", EVICTING)
    def test_an_evicted_key_begins_anew(self, run, policy):
        results = run(Count(), one_by_one(*"ababab"), limits=hf.Limits(max_keys=1, policy=policy))
        assert results.values == [("a", 1), ("b", 1)] * 3
        assert results.keys() == ["b"]

    def test_over_limit(self, run):
        limits = hf.Limits(max_keys=2, policy="over_limit")
        stream = TestStream().add_elements([("a", 1), ("b", 2), ("c", 3), ("a", 4), ("c", 5)]).crash()
        stream.add_elements([("d", 6), ("b", 7)])
        results = run(Count(), stream, limits=limits)
        assert results.values == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
        assert results.tagged("over_limit") == [("c", 3), ("c", 5), ("d", 6)]
        assert results.metrics.over_limit == 3
        assert results.keys() == ["a", "b"]

    def test_there_is_room_again(self, run):
        stream = one_by_one(*"abc").add_elements(each("a", do="clear")).add_elements(each("c"))
        results = run(Count(), stream, limits=hf.Limits(max_keys=2, policy="over_limit"))
        assert results.tagged("over_limit") == [("c", 1)]
        assert results.keys() == ["b", "c"]

    def test_a_key_that_is_cleared_has_no_age(self, run):
        stream = one_by_one(*"ab").add_elements(each("a", do="clear")).crash().add_elements(each("c"))
        results = run(Count(), stream, limits=hf.Limits(max_keys=2, policy="evict_oldest"))
        assert results.keys() == ["b", "c"]
        assert results.metrics.keys_evicted == 0

    def test_key_groups_share_it(self, run):
        limits = hf.Limits(max_keys=10, policy="evict_lru")
        results = run(Count(), TestStream().add_elements([(f"k{n}", 1) for n in range(40)]), limits=limits, key_groups=4)
        # Three each.
        assert len(results.keys()) == 12


class TestMaxBytes:
    def test_fail(self, run):
        stream = TestStream().add_elements([("a", "x"), ("b", "y" * 100), ("c", "z")])
        said = failure(run, Collect(), stream, limits=hf.Limits(max_bytes=100))
        assert "max_bytes is 100" in said
        assert "The step has 126 bytes of state. The heaviest keys, by bytes: 'b' with 108, 'a' with 9" in said

    def test_shares_in_the_message(self, run):
        stream = TestStream().add_elements([("a", "y" * 100)])
        said = failure(run, Collect(), stream, limits=hf.Limits(max_bytes=200), key_groups=4)
        assert "A key group has 108 bytes of state, where its share of 4 key groups is 50" in said

    @pytest.mark.parametrize("crash", [False, True])
    @pytest.mark.parametrize(("policy", "left"), [("evict_lru", ["a", "c"]), ("evict_oldest", ["b", "c"])])
    def test_evict(self, run, policy, left, crash):
        stream = TestStream()
        for element in [("a", "x" * 32), ("b", "x" * 32), ("a", ""), ("c", "x" * 32)]:
            stream.add_elements([element])
            if crash:
                stream.crash()
        results = run(Collect(), stream, limits=hf.Limits(max_bytes=80, policy=policy))
        assert results.keys() == left

    def test_over_limit_takes_no_new_keys(self, run):
        stream = TestStream().add_elements([("a", "x" * 92)]).crash().add_elements([("b", "no"), ("a", "yes")])
        results = run(Collect(), stream, limits=hf.Limits(max_bytes=100, policy="over_limit"))
        assert results.tagged("over_limit") == [("b", "no")]
        assert results.state("a") == {"bag": ["x" * 92, "yes"]}

    def test_what_shrinks_counts_as_less(self, run):
        class Replace(hf.DoFn):
            TEXT = hf.ValueStateSpec("text")

            def process(self, element, text=hf.DoFn.StateParam(TEXT)):
                text.write(element[1])

        stream = (
            TestStream().add_elements([("a", "x" * 80)]).add_elements([("a", "x")]).crash().add_elements([("b", "y" * 80)])
        )
        assert run(Replace(), stream, limits=hf.Limits(max_bytes=100)).keys() == ["a", "b"]


class TestMaxBytesPerKey:
    def test_fail(self, run):
        stream = TestStream().add_elements([("a", "x"), ("b", "y" * 100)])
        said = failure(run, Collect(), stream, limits=hf.Limits(max_bytes_per_key=100))
        assert "max_bytes_per_key is 100" in said
        assert "A key has 108 bytes of state. The heaviest keys, by bytes: 'b' with 108." in said

    @pytest.mark.parametrize("policy", EVICTING)
    def test_evict(self, run, policy):
        stream = TestStream().add_elements([("a", "x"), ("b", "y" * 60)]).crash().add_elements([("b", "y" * 60), ("c", "z")])
        results = run(Collect(), stream, limits=hf.Limits(max_bytes_per_key=100, policy=policy))
        assert results.keys() == ["a", "c"]
        assert results.metrics.keys_evicted == 1

    def test_over_limit(self, run):
        stream = TestStream().add_elements([("a", "y" * 100)]).crash().add_elements([("a", "no"), ("b", "yes")])
        results = run(Collect(), stream, limits=hf.Limits(max_bytes_per_key=100, policy="over_limit"))
        assert results.tagged("over_limit") == [("a", "no")]
        assert results.state("a") == {"bag": ["y" * 100]}
        assert results.state("b") == {"bag": ["yes"]}


class TestMaxBagSize:
    def test_fail(self, run):
        stream = TestStream().add_elements([("a", "1 2"), ("b", "1 2 3 4")])
        said = failure(run, Collect(), stream, limits=hf.Limits(max_bag_size=3))
        assert "max_bag_size is 3" in said
        assert "The bag 'bag' of a key has 4 elements. The heaviest keys, by bytes: 'b' with 36." in said

    @pytest.mark.parametrize("policy", EVICTING)
    def test_evict_removes_the_oldest_elements(self, run, policy):
        stream = TestStream().add_elements([("a", "1 2"), ("b", "1")]).crash().add_elements([("a", "3 4 5")]).crash()
        stream.add_elements([("a", "6")])
        results = run(Collect(), stream, limits=hf.Limits(max_bag_size=3, policy=policy))
        assert results.state("a") == {"bag": ["4", "5", "6"]}
        assert results.state("b") == {"bag": ["1"]}
        assert results.metrics.elements_evicted == 3
        assert results.metrics.keys_evicted == 0

    def test_over_limit_takes_the_call_back(self, run):
        class Both(hf.DoFn):
            BAG = hf.BagStateSpec("bag")
            CALLS = hf.ValueStateSpec("calls")

            def process(self, element, bag=hf.DoFn.StateParam(BAG), calls=hf.DoFn.StateParam(CALLS)):
                calls.write((calls.read() or 0) + 1)
                yield "begun"
                for value in element[1]:
                    bag.add(value)

        stream = TestStream().add_elements([("a", [1, 2]), ("a", [3, 4]), ("b", [5])]).crash().add_elements([("a", [6])])
        results = run(Both(), stream, limits=hf.Limits(max_bag_size=3, policy="over_limit"))
        assert results.tagged("over_limit") == [("a", [3, 4])]
        assert results.values == ["begun"] * 3
        assert results.state("a") == {"bag": [1, 2, 6], "calls": 2}

    def test_beside_dead_letters(self, run):
        class Fragile(hf.DoFn):
            BAG = hf.BagStateSpec("bag")

            def process(self, element, bag=hf.DoFn.StateParam(BAG)):
                bag.add(element[1])
                if element[1] == "bad":
                    raise ValueError("bad")

        limits = hf.Limits(max_bag_size=1, policy="over_limit")
        stream = TestStream().add_elements([("a", "bad"), ("a", "good"), ("a", "more")])
        results = run(Fragile(), stream, limits=limits, on_error="dead_letter")
        assert [letter.value for letter in results.tagged("dead_letter")] == ["bad"]
        assert results.tagged("over_limit") == [("a", "more")]
        with pytest.raises(hf.UserCodeError, match="ValueError"):
            run(Fragile(), stream, limits=limits)

    def test_a_callback_has_no_element_to_divert(self, run):
        class Late(hf.DoFn):
            BAG = hf.BagStateSpec("bag")
            SOON = hf.TimerSpec("soon", hf.TimeDomain.WATERMARK)

            def process(self, element, bag=hf.DoFn.StateParam(BAG), soon=hf.DoFn.TimerParam(SOON)):
                bag.add(element[1])
                soon.set(10)

            @hf.on_timer(SOON)
            def on_soon(self, bag=hf.DoFn.StateParam(BAG)):
                bag.add(0)

        stream = TestStream().add_elements([("a", 1)]).advance_watermark_to(10)
        said = failure(run, Late(), stream, limits=hf.Limits(max_bag_size=1, policy="over_limit"))
        assert "on_soon adds to the bag 'bag', which is full" in said


class TwoLives(hf.DoFn):
    """What lives for an hour, beside what stays."""

    BRIEF = hf.ValueStateSpec("brief", hf.VarIntCoder(), ttl=hf.Ttl(3600))
    LONG = hf.ValueStateSpec("long", hf.VarIntCoder())

    def process(self, element, brief=hf.DoFn.StateParam(BRIEF), long=hf.DoFn.StateParam(LONG)):
        brief.write(1)
        long.write(1)
        yield element[0]


def test_what_is_swept_is_no_use_of_a_key(run):
    stream = TestStream().add_elements([("a", 1)]).advance_processing_time(1).add_elements([("b", 1)])
    stream.advance_processing_time(3599).add_elements([("c", 1)])
    results = run(TwoLives(), stream, limits=hf.Limits(max_keys=2, policy="evict_lru"))
    assert results.keys() == ["b", "c"]


class TestWindows:
    def windowed(self, *elements):
        return [hf.TimestampedValue((key, 1), time) for key, time in elements]

    def test_a_key_counts_once_and_goes_from_all_its_windows(self, run):
        stream = TestStream().add_elements(self.windowed(("a", 1), ("a", 61), ("b", 1))).crash()
        stream.add_elements(self.windowed(("c", 61)))
        limits = hf.Limits(max_keys=2, policy="evict_oldest")
        results = run(Count(), stream, limits=limits, windowing=hf.FixedWindows(60))
        assert results.keys() == ["b", "c"]
        assert results.metrics.keys_evicted == 1

    def test_a_window_that_ends_makes_room(self, run):
        stream = TestStream().add_elements(self.windowed(("a", 1), ("b", 61))).crash().advance_watermark_to(60)
        stream.add_elements(self.windowed(("c", 62), ("d", 62)))
        limits = hf.Limits(max_keys=2, policy="over_limit")
        results = run(Count(), stream, limits=limits, windowing=hf.FixedWindows(60))
        assert results.keys() == ["b", "c"]
        assert results.tagged("over_limit") == [("d", 1)]

    def test_a_key_is_as_old_as_its_first_window(self, run):
        """Also when that has ended, if the key was there all the time."""
        stream = TestStream().add_elements(self.windowed(("a", 1))).add_elements(self.windowed(("b", 61)))
        stream.add_elements(self.windowed(("a", 61))).crash().advance_watermark_to(60).add_elements(self.windowed(("c", 61)))
        limits = hf.Limits(max_keys=2, policy="evict_oldest")
        assert run(Count(), stream, limits=limits, windowing=hf.FixedWindows(60)).keys() == ["b", "c"]

    @pytest.mark.parametrize("crash", [False, True])
    def test_a_key_was_used_when_any_of_its_windows_was(self, run, crash):
        """Also when that window has ended."""
        came = [[("a", 15)], [("b", 15), ("c", 15)], [("a", 5)], [("d", 15)], None, [("e", 15)]]
        stream = TestStream()
        for elements in came:
            if elements is None:
                stream.advance_watermark_to(10)
            else:
                stream.add_elements(self.windowed(*elements))
            if crash:
                stream.crash()
        limits = hf.Limits(max_keys=3, policy="evict_lru")
        results = run(Count(), stream, limits=limits, windowing=hf.FixedWindows(10))
        assert results.keys() == ["a", "d", "e"]
        assert results.metrics.keys_evicted == 2

    def test_bytes_of_a_key_are_those_of_all_windows(self, run):
        elements = [hf.TimestampedValue(("a", "x" * 50), time) for time in (1, 61)]
        stream = TestStream().add_elements(elements[:1]).crash().add_elements(elements[1:])
        said = failure(run, Collect(), stream, limits=hf.Limits(max_bytes_per_key=100), windowing=hf.FixedWindows(60))
        assert "A key has 116 bytes of state" in said


class TestOtherState:
    def test_timers_go_too(self, run):
        class Reminder(hf.DoFn):
            SOON = hf.TimerSpec("soon", hf.TimeDomain.WATERMARK)

            def process(self, element, soon=hf.DoFn.TimerParam(SOON)):
                soon.set(10)
                soon.set(20, dynamic_timer_tag="second")

            @hf.on_timer(SOON)
            def on_soon(self, key=hf.DoFn.KeyParam):
                yield key

        stream = one_by_one(*"abc").crash().advance_watermark_to(30)
        results = run(Reminder(), stream, limits=hf.Limits(max_keys=1, policy="evict_oldest"))
        assert results.values == ["c", "c"]

    def test_every_kind_of_cell(self, run):
        class Kinds(hf.DoFn):
            BAG = hf.BagStateSpec("bag", ttl=hf.Ttl(3600))
            SET = hf.SetStateSpec("set")
            MAP = hf.MapStateSpec("map")
            ORDERED = hf.OrderedListStateSpec("ordered")
            SUM = hf.CombiningStateSpec("sum", sum)

            def process(
                self,
                element,
                bag=hf.DoFn.StateParam(BAG),
                members=hf.DoFn.StateParam(SET),
                mapping=hf.DoFn.StateParam(MAP),
                ordered=hf.DoFn.StateParam(ORDERED),
                total=hf.DoFn.StateParam(SUM),
            ):
                value = element[1]
                bag.add(value)
                members.add((value, None))
                mapping.put(value, [value])
                ordered.add((value, {"of": value}))
                total.add(value)

        elements = [(key, n) for n in range(3) for key in "abc"]
        stream = TestStream().add_elements(elements).crash().add_elements([("a", 7), ("d", 8)]).crash()
        stream.add_elements([("e", 9)])
        results = run(Kinds(), stream, limits=hf.Limits(max_keys=2, policy="evict_lru"))
        assert results.keys() == ["d", "e"]
        whole = run(Kinds(), TestStream().add_elements([("e", 9)]))
        assert results.state("e") == whole.state("e")

    def test_elements_that_are_held_back_are_state(self, run):
        elements = [hf.TimestampedValue((key, 1), time) for key, time in (("a", 5), ("b", 3), ("c", 4))]
        stream = TestStream().add_elements(elements).advance_watermark_to(10)
        limits = hf.Limits(max_keys=2, policy="over_limit")
        results = run(Count(), stream, limits=limits, requires_time_sorted_input=True)
        assert results.values == [("b", 1), ("a", 1)]
        assert results.tagged("over_limit") == [("c", 1)]


def test_the_state_is_as_it_was_before_a_failure(run):
    """The micro-batch that fails leaves nothing behind, and what follows in a run with more room goes on from there."""

    class Guard(hf.DoFn):
        SEEN = hf.ValueStateSpec("seen")

        def process(self, element, seen=hf.DoFn.StateParam(SEEN)):
            seen.write((seen.read() or 0) + 1)
            yield element[0], seen.read()

    if run.runtime == "spark":
        pytest.skip("a script on Spark has no state after it failed; tests/integration has this")
    first = run(Guard(), one_by_one(*"ab"), limits=hf.Limits(max_keys=2))
    stream = one_by_one(*"abc")
    with pytest.raises(hf.LimitExceeded):
        run(Guard(), stream, limits=hf.Limits(max_keys=2), start_from=first)
    after = run(Guard(), one_by_one(*"abc"), limits=hf.Limits(max_keys=3), start_from=first)
    assert after.values == [("a", 2), ("b", 2), ("c", 1)]


def test_limits_may_change_over_stored_state(run):
    if run.runtime == "spark":
        pytest.skip("start_from is for the memory runtime")
    first = run(Count(), one_by_one(*"cba"))
    second = run(Count(), one_by_one("d"), limits=hf.Limits(max_keys=3, policy="evict_lru"), start_from=first)
    # From before there were ages: the order of the keys decides.
    assert second.keys() == ["b", "c", "d"]
    third = run(Count(), one_by_one("c", "e"), limits=hf.Limits(max_keys=3, policy="evict_lru"), start_from=second)
    assert third.keys() == ["c", "d", "e"]
    assert run(Count(), one_by_one("f"), start_from=third).keys() == ["c", "d", "e", "f"]


def sums(run, policy, *, crash=False, **options):
    """Sums by key in windows of ten, with room for two keys."""
    stream = TestStream()
    for key, time in (("a", 1), ("b", 2), ("c", 3), ("a", 4)):
        stream = stream.add_elements([hf.TimestampedValue((key, 1), time)])
        stream = stream.crash() if crash else stream
    limits = hf.Limits(max_keys=2, policy=policy)
    stream = stream.advance_watermark_to_infinity()
    return run(hf.CombinePerKey(sum), stream, windowing=hf.FixedWindows(10), limits=limits, **options)


@pytest.mark.parametrize("crash", [False, True])
def test_an_aggregation_diverts(run, crash):
    results = sums(run, "over_limit", crash=crash, outputs=["over_limit"])
    assert sorted(results.tagged("main")) == [("a", 2), ("b", 1)]
    assert results.tagged("over_limit") == [("c", 1)]


@pytest.mark.parametrize("crash", [False, True])
def test_an_aggregation_evicts(run, crash):
    results = sums(run, "evict_lru", crash=crash)
    assert sorted(results.values) == [("a", 1), ("c", 1)]
    assert results.metrics.keys_evicted == 2


def test_an_aggregation_fails(run):
    with pytest.raises(hf.LimitExceeded, match="max_keys is 2"):
        sums(run, "fail")


class TestHotKeys:
    def test_by_elements_and_by_bytes(self, run):
        elements = [("hot", "x")] * 50 + [("warm", "x")] * 20 + [("cold", "y" * 1000)]
        metrics = run(Collect(), TestStream().add_elements(elements).add_elements(elements)).metrics
        assert [tuple(hot) for hot in metrics.hot_keys] == [("hot", 100), ("warm", 40), ("cold", 2)]
        assert [tuple(heavy) for heavy in metrics.heavy_keys] == [("cold", 2016), ("hot", 900), ("warm", 360)]

    def test_of_an_aggregation(self, run):
        elements = [hf.TimestampedValue((key, 1), 1) for key in "aab"]
        stream = TestStream().add_elements(elements).advance_watermark_to_infinity()
        metrics = run(hf.CombinePerKey(sum), stream, windowing=hf.FixedWindows(60)).metrics
        assert [(hot.key, hot.elements) for hot in metrics.hot_keys] == [("a", 2), ("b", 1)]
