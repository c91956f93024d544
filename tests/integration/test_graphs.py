"""Jobs of several steps: one query, in which each step runs once, beside plain Python that does the same."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from pyspark.sql import functions as F

import holdfast as hf

ROWS = [("ab"[i % 2] + str(i % 5), i) for i in range(40)]
FILES = 2
OUTPUT = "k string, v int, n int"


class Numbered(hf.DoFn):
    """Gives each element of a key its number."""

    SEEN = hf.ValueStateSpec("seen", hf.VarIntCoder())

    def process(self, element, seen=hf.DoFn.StateParam(SEEN)):
        key, value = element
        number = (seen.read() or 0) + 1
        seen.write(number)
        yield key, value, number


class Strict(Numbered):
    """Refuses multiples of seven, and gives even ones to another output."""

    def process(self, element, seen=hf.DoFn.StateParam(Numbered.SEEN)):
        _, value = element
        if value % 7 == 0:
            raise ValueError(f"seven divides {value}")
        for row in Numbered.process(self, element, seen):
            yield row if value % 2 else hf.TaggedOutput("even", row)


def numbered(rows):
    """What `Numbered` gives for (key, value) pairs. Rows of a key keep their order; rows of other keys may come between."""
    counts = Counter()
    found = []
    for key, value in rows:
        counts[key] += 1
        found.append((key, value, counts[key]))
    return found


def plain(rows):
    return sorted(map(tuple, rows), key=repr)


def at_night(*cases):
    return [pytest.param(case, marks=pytest.mark.night) for case in cases]


@pytest.fixture
def rows(feed):
    made = feed("k string, v int")
    size = len(ROWS) // FILES
    for begin in range(0, len(ROWS), size):
        made.add(*({"k": k, "v": v} for k, v in ROWS[begin : begin + size]))
    return made


def step(df, name, *, key="k", value="v", fn=Numbered, output=OUTPUT, **options):
    return hf.keyed(df, key=key, value=value).par_do(fn(), output=output, name=name, key_groups=4, **options)


@pytest.fixture
def run(tmp_path):
    """Runs a job with these outputs; gives their rows, sorted, and the job."""

    def run(*frames, checkpoint="checkpoint", **options):
        sinks = [hf.sinks.Collect() for _ in frames]
        job = hf.Job("graph", checkpoint=str(tmp_path / checkpoint), trigger="available now", progress=False, **options)
        for frame, sink in zip(frames, sinks, strict=True):
            job.write(frame, sink)
        job.run()
        return [plain(sink.rows) for sink in sinks], job

    return run


def elements(job):
    return {name: metrics.elements for name, metrics in job.metrics.items()}


# Shapes


@pytest.mark.night
def test_a_chain_of_three_with_all_outputs_written(rows, run):
    first = step(rows.df, "first")
    second = step(first, "second", value="n")
    third = step(second, "third", value="n")
    written, job = run(first, second, third, third)
    one = numbered(ROWS)
    two = numbered((k, n) for k, _, n in one)
    three = numbered((k, n) for k, _, n in two)
    assert written == [plain(one), plain(two), plain(three), plain(three)]
    assert elements(job) == dict.fromkeys(("first", "second", "third"), len(ROWS))


@pytest.mark.night
def test_a_diamond(rows, run):
    top = step(rows.df, "top")
    left = step(top.where("v % 2 = 0"), "left", value="n")
    right = step(top.where("v % 2 = 1"), "right", value="n")
    bottom = step(left.union(right), "bottom", value="n")
    [merged, from_top], job = run(bottom, top.select("k"))
    one = numbered(ROWS)
    sides = [numbered((k, n) for k, v, n in one if v % 2 == odd) for odd in (0, 1)]
    # Which side's rows of a key come first is not said: only how many there are.
    assert sorted((k, v) for k, v, _ in merged) == sorted((k, n) for side in sides for k, _, n in side)
    assert sorted((k, n) for k, _, n in merged) == sorted((k, n) for k, _, n in one)
    assert from_top == plain((k,) for k, _ in ROWS)
    assert elements(job) == {"top": 40, "left": 20, "right": 20, "bottom": 40}


@pytest.mark.night
def test_one_source_is_read_once_by_five_steps(rows, run):
    df = rows.df
    frames = [
        step(df, "all"),
        step(df.where("v > 10"), "large"),
        step(df.select(F.substring("k", 1, 1).alias("k"), "v"), "letters"),
        step(df.withColumn("v", F.col("v") * 2).where("v < 20"), "doubled"),
        step(df.where("v % 2 = 0").select("k", (F.lit(100) / F.col("v")).cast("int").alias("v")).where("v > 3"), "shares"),
    ]
    with pytest.raises(Exception, match=r"DIVIDE_BY_ZERO|Division by zero|division"):
        run(*frames, checkpoint="divided by zero")
    frames[4] = step(
        df.where("v != 0").select("k", (F.lit(100) / F.col("v")).cast("int").alias("v")).where("v > 3"), "shares"
    )
    written, job = run(*frames)
    wanted = [
        ROWS,
        [(k, v) for k, v in ROWS if v > 10],
        [(k[0], v) for k, v in ROWS],
        [(k, 2 * v) for k, v in ROWS if 2 * v < 20],
        [(k, 100 // v) for k, v in ROWS if v and 100 // v > 3],
    ]
    assert written == [plain(numbered(one)) for one in wanted]
    reports = job.query.recentProgress
    assert sum(report.numInputRows for report in reports) == len(ROWS)
    assert all(len(report.stateOperators) == 1 for report in reports)


def test_outputs_of_inner_steps_and_dead_letters_of_both(rows, run):
    outputs = {"main": OUTPUT, "even": OUTPUT, "dead_letter": None}
    options = {"on_error": "dead_letter", "outputs": outputs}
    first = hf.keyed(rows.df, key="k", value="v").par_do(Strict(), name="first", key_groups=4, **options)
    second = hf.keyed(first.main, key="k", value="n").par_do(Strict(), name="second", key_groups=2, **options)
    letters = first.dead_letter.select("k", "v", "error").union(second.dead_letter.select("k", F.col("n"), "error"))
    [even, main, dead], _ = run(first.even, second.main.where("n < 100"), letters)
    good = numbered((k, v) for k, v in ROWS if v % 7)
    assert even == plain(row for row in good if row[1] % 2 == 0)
    passed = [(k, n) for k, v, n in good if v % 2]
    again = numbered((k, n) for k, n in passed if n % 7)
    assert main == plain(row for row in again if row[1] % 2)
    refused = [(k, v) for k, v in ROWS if v % 7 == 0] + [(k, n) for k, n in passed if n % 7 == 0]
    assert [(k, v) for k, v, _ in dead] == plain(refused)
    assert all("seven divides" in error for *_, error in dead)


@pytest.mark.night
def test_the_same_output_into_one_step_twice(rows, run):
    first = step(rows.df, "first")
    second = step(first.union(first), "second", value="n")
    [twice], job = run(second)
    assert sorted((k, n) for k, _, n in twice) == sorted((k, n) for k, _, n in numbered((k, 0) for k, _ in ROWS + ROWS))
    assert elements(job) == {"first": 40, "second": 80}


@pytest.mark.night
def test_a_source_and_a_step_into_one_step(rows, run):
    first = step(rows.df.where("v < 20"), "first")
    both = first.select("k", "n").union(rows.df.select("k", F.col("v").alias("n")).where("n >= 20"))
    second = step(both, "second", value="n")
    [merged, _], _ = run(second, first)
    given = [(k, n) for k, _, n in numbered((k, v) for k, v in ROWS if v < 20)] + [(k, v) for k, v in ROWS if v >= 20]
    assert sorted((k, v) for k, v, _ in merged) == sorted(given)


# Spark's own work between two steps


def between(rows, run, work):
    """What a second step is given after some work on the output of a first, which is written too."""
    first = step(rows.df, "first")
    second = step(work(first), "second")
    [kept, given], _ = run(first, second)
    assert kept == plain(numbered(ROWS))
    return plain((k, v) for k, v, _ in given)


ONE = numbered(ROWS)


@pytest.mark.night
def test_where_and_select_between_steps(rows, run):
    def work(first):
        kept = first.where("v != 0").withColumn("v", (F.lit(1000) / F.col("v")).cast("int")).where("v between 30 and 90")
        return kept.alias("other").select("other.k", "other.v")

    wanted = plain((k, 1000 // v) for k, v, _ in ONE if v and 30 <= 1000 // v <= 90)
    assert between(rows, run, work) == wanted


@pytest.mark.night
@pytest.mark.parametrize("how", ["explode", *at_night("explode_outer", "posexplode")])
def test_unfolding_between_steps(rows, run, how):
    def work(first):
        parts = F.when(F.col("v") % 3 == 0, F.array("v", "n")).when(F.col("v") % 3 == 1, F.array().cast("array<int>"))
        unfold = getattr(F, how)(parts)
        return first.select("k", unfold.alias("at", "v") if how == "posexplode" else unfold.alias("v")).select("k", "v")

    wanted = [(k, x) for k, v, n in ONE if v % 3 == 0 for x in (v, n)]
    if how == "explode_outer":
        wanted += [(k, None) for k, v, n in ONE if v % 3]
    assert between(rows, run, work) == plain(wanted)


@pytest.mark.night
@pytest.mark.parametrize("how", ["inner", *at_night("left", "anti", "right", "cross")])
def test_joins_with_a_batch_between_steps(spark, rows, run, how):
    few = spark.createDataFrame([("a0", 5), ("a0", 6), ("b1", 7), ("zz", 8)], "k string, x int")
    by_key = {"a0": [5, 6], "b1": [7]}

    def work(first):
        if how == "cross":
            return first.crossJoin(few.select("x")).select("k", (F.col("v") + F.col("x")).alias("v"))
        if how == "right":
            return few.join(first, "k", "right").select("k", F.coalesce("x", "v").alias("v"))
        joined = first.where("v > 3").join(F.broadcast(few), "k", how)
        return joined.select("k", F.coalesce("x", "v").alias("v") if how in ("inner", "left") else "v")

    found = between(rows, run, work)
    late = [(k, v) for k, v, _ in ONE if v > 3]
    if how == "cross":
        wanted = [(k, v + x) for k, v, _ in ONE for x in (5, 6, 7, 8)]
    elif how == "right":
        wanted = [(k, x) for k, v, _ in ONE for x in by_key.get(k, [v])]
    elif how == "left":
        wanted = [(k, x) for k, v in late for x in by_key.get(k, [v])]
    elif how == "inner":
        wanted = [(k, x) for k, v in late for x in by_key.get(k, [])]
    else:
        wanted = [(k, v) for k, v in late if k not in by_key]
    assert found == plain(wanted)


@pytest.mark.night
def test_two_edges_with_joins_do_not_multiply_each_other(spark, rows, run):
    few = spark.createDataFrame([("a0", 5), ("a0", 6)], "k string, x int")
    first = step(rows.df, "first")
    one = step(first.join(few, "k").select("k", "x"), "one", value="x")
    two = step(first.join(few, "k").select("k", F.explode(F.array("x", "v")).alias("y")), "two", value="y")
    three = step(first.where("n > 1"), "three")
    written, _ = run(one, two, three)
    own = [v for k, v, _ in ONE if k == "a0"]
    assert sorted(v for _, v, _ in written[0]) == sorted(x for _ in own for x in (5, 6))
    assert sorted(v for _, v, _ in written[1]) == sorted(y for v in own for x in (5, 6) for y in (x, v))
    assert written[2] == plain(numbered((k, v) for k, v, n in ONE if n > 1))


@pytest.mark.night
def test_what_cannot_be_between_steps_is_named(rows, run):
    first = step(rows.df, "first")
    twice = F.udf(lambda v: v * 2, "int")
    second = step(first.withColumn("v", twice("v")), "second")
    with pytest.raises(hf.InvalidStep, match="Between the steps 'first' and 'second' there is a Python function"):
        run(first, second)
    job = hf.Job("explained", checkpoint="/nowhere").write(first, hf.sinks.Collect()).write(second, hf.sinks.Collect())
    with pytest.raises(hf.InvalidStep, match="there is a Python function"):
        job.explain()
    # By themselves, nothing passes by.
    [given], _ = run(second)
    assert given == plain(numbered((k, 2 * v) for k, v, _ in ONE))


# Kinds of steps


class Closing(hf.DoFn):
    """Gives how many elements a key has had by the time at which its first one is a minute old."""

    SEEN = hf.ValueStateSpec("seen", hf.VarIntCoder())
    QUIET = hf.TimerSpec("quiet", hf.TimeDomain.WATERMARK)

    def process(self, element, at=hf.DoFn.TimestampParam, seen=hf.DoFn.StateParam(SEEN), quiet=hf.DoFn.TimerParam(QUIET)):
        if seen.read() is None:
            quiet.set(at + 60)
        seen.write((seen.read() or 0) + 1)

    @hf.on_timer(QUIET)
    def closed(self, key=hf.DoFn.KeyParam, seen=hf.DoFn.StateParam(SEEN)):
        yield key, seen.read()
        seen.clear()


class Ticking(Numbered):
    """Waits for processing time too, which never comes in a test."""

    LATER = hf.TimerSpec("later", hf.TimeDomain.REAL_TIME)

    def process(self, element, seen=hf.DoFn.StateParam(Numbered.SEEN), later=hf.DoFn.TimerParam(LATER)):
        later.set(hf.Timestamp.now() + 3600)
        yield from Numbered.process(self, element, seen)

    @hf.on_timer(LATER)
    def wake(self):
        yield "late", 0, 0


BEGINS = (0, 300, 900, 2000)


def test_event_time_windows_and_processing_time_in_one_job(feed, run):
    made = feed("k string, v int, t timestamp")
    for begin in BEGINS:
        made.add(*({"k": "ab"[i % 2], "v": i, "t": hf.Timestamp(begin + i).to_utc_datetime()} for i in range(20)))
    df = made.df
    stream = hf.keyed(df, key="k", value="v", timestamp="t", watermark="10 seconds")
    closed = stream.par_do(Closing(), output="k string, n int", name="closing", key_groups=4)
    sums = stream.window_into(hf.FixedWindows(60)).combine_per_key(hf.Sum(), name="sums", key_groups=4)
    ticking = step(df, "ticking", fn=Ticking)
    counted = hf.keyed(ticking, key="k", value="n").window_into(
        hf.GlobalWindows(), trigger=hf.Repeatedly(hf.AfterCount(10)), accumulation_mode=hf.AccumulationMode.ACCUMULATING
    )
    tens = counted.combine_per_key(hf.Max(), output="most int", name="tens", key_groups=4)
    [closings, windows, ticks, most], _ = run(closed, sums.select("k", "window.start", "value"), ticking, tens)
    # The watermark of a micro-batch follows from those before it.
    assert closings == [("a", 30), ("b", 30)]
    starts = defaultdict(int)
    for begin in BEGINS:
        for i in range(20):
            starts["ab"[i % 2], (begin + i) // 60 * 60] += i
    ended = {place: total for place, total in starts.items() if place[1] + 60 <= 900 + 19 - 10}
    assert [(k, int(start.timestamp()), total) for k, start, total in windows] == sorted((*p, t) for p, t in ended.items())
    assert ticks == plain(numbered([("ab"[i % 2], i) for _ in BEGINS for i in range(20)]))
    assert most == [(key, 10 * n) for key in "ab" for n in (1, 2, 3, 4)]


@pytest.mark.night
def test_initial_state_of_steps_that_share_an_operator(spark, rows, run):
    begun = spark.createDataFrame([("a0", 100)], "k string, seen int")
    one = step(rows.df, "one", initial_state=begun)
    two = step(rows.df, "two", initial_state=begun.withColumn("seen", F.lit(500)))
    three = step(rows.df, "three")
    [first, second, third], _ = run(one, two, three)
    for found, start in ((first, 100), (second, 500), (third, 0)):
        assert found == plain((k, v, n + start if k == "a0" else n) for k, v, n in ONE)


# What an attack found


def test_watermarks_of_their_own(feed, run):
    made = feed("k string, v int, t timestamp")
    for begin in (0, 300):
        made.add(*({"k": "a", "v": i, "t": hf.Timestamp(begin + i).to_utc_datetime()} for i in range(20)))
    df = made.df

    def windows(frame, name, watermark):
        keyed = hf.keyed(frame, key="k", value="v", timestamp="t", watermark=watermark).window_into(hf.FixedWindows(60))
        return keyed.combine_per_key(hf.Count(), name=name, key_groups=2).select("window.start", "value")

    frames = [
        windows(df, "one", "1 second"),
        windows(df, "ten", "10 seconds"),
        windows(df.where("v >= 0"), "all", "1 second"),
        windows(df.where("v > 9"), "half", "1 second"),
    ]
    found, _ = run(*frames)
    assert [[count for _, count in rows] for rows in found] == [[20], [20], [20], [10]]
    first = step(df, "first", output="k string, v int, n int")
    timed = first.withColumn("t", F.timestamp_seconds("v"))
    with pytest.raises(hf.InvalidStep, match="Several watermarks are declared"):
        run(windows(timed.where("v > 1"), "a", "1 second"), windows(timed.where("v < 1"), "b", "1 second"), checkpoint="two")


@pytest.mark.night
def test_random_columns_are_computed_once(rows, run):
    drawn = rows.df.withColumn("u", F.rand())
    low, high = step(drawn.where("u < 0.5"), "low"), step(drawn.where("u >= 0.5"), "high")
    first = step(rows.df, "first")
    again = first.withColumn("u", F.rand(7))
    found, _ = run(low, high, step(again.where("u < 0.5"), "below"), step(again.where("u >= 0.5"), "above"))
    for one, other in (found[:2], found[2:]):
        assert sorted((k, v) for k, v, _ in one + other) == sorted(ROWS)


@pytest.mark.night
def test_the_keys_of_a_join_are_computed_for_its_rows_only(spark, rows, run):
    few = spark.createDataFrame([(0, 5), (1, 6)], "id int, x int")
    first = step(rows.df, "first")
    kept = first.where("k not like 'b%'").join(few, F.regexp_replace("k", "a", "").cast("int") == F.col("id"))
    second = step(kept.select("k", "x"), "second", value="x")
    [_, given], _ = run(first, second)
    wanted = [(k, {"a0": 5, "a1": 6}[k]) for k, _ in ROWS if k in ("a0", "a1")]
    assert sorted((k, v) for k, v, _ in given) == sorted(wanted)


def test_state_of_sparks_own_before_several_steps_is_refused(rows, run):
    unique = rows.df.dropDuplicates(["v"])
    with pytest.raises(hf.InvalidStep, match=r"Before the step 'one' Spark keeps state of its own \(Deduplicate\)"):
        run(step(unique, "one"), step(unique, "two"))
