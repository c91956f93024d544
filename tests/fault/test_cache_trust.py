"""What workers keep in memory between micro-batches is used only where it belongs.

All in one Spark session, whose workers stay: two queries of the same step at once, a query that is started again, one
whose checkpoint was taken back to an earlier micro-batch, and a sink that evaluates every micro-batch twice. An empty
file stands for the micro-batch without input that Spark adds when all input is read.
"""

from __future__ import annotations

import shutil

import pytest

import holdfast as hf

from .checker import History, check
from .ledger import OUTPUT, Ledger
from .oracle import expected_rows
from .running import Place, read_sink
from .stream import make_files, write_files

SECONDS_MAX = 240


@pytest.fixture(scope="module")
def spark():
    return hf.session("fault", cores=2)


def ledger(spark, place, key_groups=4):
    source = spark.readStream.schema("k string, v long, at timestamp").option("maxFilesPerTrigger", 1)
    stream = hf.keyed(source.json(str(place.input)), key="k", value="v", timestamp="at", watermark="10 seconds")
    return stream.par_do(Ledger(), output=OUTPUT, key_groups=key_groups)


def start(spark, place, name="ledger"):
    place.input.mkdir(parents=True, exist_ok=True)
    job = hf.Job(name, checkpoint=str(place.checkpoint), trigger="available now", progress=False)
    return job.write(ledger(spark, place), hf.sinks.Sqlite(place.output, "ledger")).start()


def finish(job):
    if not job.wait(SECONDS_MAX):
        job.query.stop()
        raise AssertionError(f"The query hangs: no end after {SECONDS_MAX} seconds.")
    print(job.metrics["Ledger"])


def verdict_on(place, files):
    return check(History(ended=True), lambda: read_sink(place), lambda: expected_rows(files))


def test_two_queries_at_once(seed, spark, tmp_path):
    places = [Place(tmp_path / "one"), Place(tmp_path / "two")]
    inputs = [make_files(seed, files=8), make_files(seed + 1, files=8)]
    for place, files in zip(places, inputs, strict=True):
        write_files(place.input, files)
    jobs = [start(spark, place, place.root.name) for place in places]
    for job in jobs:
        finish(job)
    for place, files in zip(places, inputs, strict=True):
        verdict = verdict_on(place, files)
        assert verdict.valid is True, f"{place.root.name}: {verdict}"


def test_a_query_that_is_started_again(seed, spark, tmp_path):
    place = Place(tmp_path)
    files = make_files(seed, files=8)
    for first in (0, 2, 5):
        end = {0: 2, 2: 5, 5: 8}[first]
        write_files(place.input, files[first:end], first=first)
        finish(start(spark, place))
    verdict = verdict_on(place, [*files[:2], [], *files[2:5], [], *files[5:], []])
    assert verdict.valid is True, str(verdict)


def numbered(directory, above):
    """The files of one of Spark's logs from after a number on, with their checksums."""
    for path in directory.iterdir():
        number = path.name.strip(".").partition(".")[0]
        if number.isdigit() and int(number) > above:
            yield path


@pytest.mark.parametrize("way", ["an older copy", pytest.param("the newest entries deleted", marks=pytest.mark.night)])
def test_a_checkpoint_that_was_taken_back(seed, spark, way, tmp_path):
    """The workers hold the key groups of a history that has never been; and the next one has as many micro-batches."""
    place, copy = Place(tmp_path / "run"), Place(tmp_path / "copy")
    common, abandoned, instead = (
        make_files(seed, files=3, end=False),
        make_files(seed + 1, files=7),
        make_files(seed + 2, files=7),
    )
    write_files(place.input, common)
    finish(start(spark, place))
    shutil.copytree(place.root, copy.root)
    write_files(place.input, abandoned[3:], first=3)
    finish(start(spark, place))
    if way == "an older copy":
        shutil.rmtree(place.checkpoint)
        shutil.copytree(copy.checkpoint, place.checkpoint)
    else:
        for log in ("offsets", "commits", "sources/0"):
            last = max(int(path.name) for path in (copy.checkpoint / log).iterdir() if path.name.isdigit())
            for path in list(numbered(place.checkpoint / log, above=last)):
                path.unlink()
    shutil.copy(copy.output, place.output)
    shutil.rmtree(place.input)
    write_files(place.input, instead[3:], first=7)
    finish(start(spark, place))
    verdict = verdict_on(place, [*common, [], *instead[3:], []])
    assert verdict.valid is True, str(verdict)


class Repeated:
    """A function for Spark's own foreachBatch: takes every micro-batch so many times, which runs all of its tasks."""

    def __init__(self, times):
        self.taken = [[] for _ in range(times)]

    def __call__(self, frame, batch):
        for rows in self.taken:
            rows += map(tuple, frame.collect())


def run_plainly(frame, place, function):
    """With Spark's own writeStream, which does not keep what a micro-batch gave."""
    writer = frame.writeStream.foreachBatch(function).option("checkpointLocation", str(place.checkpoint))
    query = writer.trigger(availableNow=True).start()
    if not query.awaitTermination(SECONDS_MAX):
        query.stop()
        raise AssertionError(f"The query hangs: no end after {SECONDS_MAX} seconds.")


def test_a_sink_that_evaluates_twice(seed, spark, tmp_path):
    place = Place(tmp_path)
    files = make_files(seed, files=7)
    write_files(place.input, files)
    sink = Repeated(2)
    run_plainly(ledger(spark, place), place, sink)
    for rows in sink.taken:
        verdict = check(History(ended=True), lambda rows=rows: rows, lambda: expected_rows(files))  # type: ignore[misc]
        assert verdict.valid is True, str(verdict)


@pytest.mark.night
@pytest.mark.parametrize("times", [1, 2])
def test_the_manifest_is_not_lost_by_evaluating_again(seed, spark, times, tmp_path):
    """What counts is what the last evaluation commits, and by then the workers know the key groups already."""
    place = Place(tmp_path)
    files = make_files(seed, files=3)
    write_files(place.input, files[:1])
    run_plainly(ledger(spark, place), place, Repeated(times))
    write_files(place.input, files[1:], first=1)
    with pytest.raises(Exception, match="key_groups was 4 and is 8 now"):
        run_plainly(ledger(spark, place, key_groups=8), place, Repeated(1))
