"""The text and the picture of a job, from descriptions made by hand."""

from __future__ import annotations

import re
import unicodedata
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from holdfast.engine.stored.words import (
    coder_words,
    combiner_words,
    duration_words,
    limit_words,
    ttl_words,
    window_words,
    without_secrets,
)
from holdfast.errors import InputError
from holdfast.model.state.limits import Limits
from holdfast.spark.graph.description import (
    CellView,
    ColumnView,
    EdgeView,
    GraphView,
    OperatorView,
    OutputView,
    SinkView,
    SourceView,
    StepView,
    TimerView,
)
from holdfast.spark.graph.picture.explanation import Explanation
from holdfast.spark.graph.picture.measure import cut, width_of
from holdfast.spark.graph.picture.svg import svg_of
from holdfast.spark.graph.picture.text import text_of

CARD = (ColumnView("card", "string"),)
SVG = "{http://www.w3.org/2000/svg}"


def edge(origin, *nodes, handed_on=False):
    return EdgeView(origin, CARD, nodes, handed_on)


def step(name, *inputs, tags=("main",), **more):
    outputs = tuple(OutputView(name, tag) for tag in tags)
    return StepView(name, "Count", CARD, 32, "heap", inputs, CARD, outputs, **more)


def small(name="count", source="/data/in", sink="Parquet('/data/out')", tag="main", cell="seen"):
    """A source, a step and a sink."""
    read = SourceView(1, "json", source)
    counted = step(name, edge(read, "Filter"), tags=(tag, "late"), cells=(CellView(cell, "value", "varint", "1 hour"),))
    written = SinkView(1, sink, CARD, (edge(OutputView(name, tag)),))
    return GraphView("small", (read,), (OperatorView(0, 0, (counted,)),), (written,))


def diamond():
    read = SourceView(1, "kafka", "payments")
    top = step("top", edge(read), timers=(TimerView("later", "event time"),))
    left = step("left", edge(OutputView("top", "main"), "Filter"), windows="FixedWindows(size 1 hour)")
    right = step("right", edge(OutputView("top", "main"), handed_on=True), limits="max_keys 10: fail")
    both = step(
        "both", edge(OutputView("left", "main")), edge(OutputView("right", "main")), trigger="AfterCount, discarding"
    )
    operators = (
        OperatorView(2, 0, (top,)),
        OperatorView(1, 1, (left, right)),
        OperatorView(0, 2, (both,)),
    )
    sinks = (
        SinkView(1, "Parquet('/data/out')", CARD, (edge(OutputView("both", "main")),)),
        SinkView(2, "Collect(0 rows)", CARD, (edge(OutputView("top", "main"), "Project", "Union"),)),
    )
    return GraphView("diamond", (read,), operators, sinks)


def texts(svg, style):
    """What can be read in a picture, without what only appears when one points at it."""
    return [_shown(node) for node in ET.fromstring(svg).iter(f"{SVG}text") if node.get("class") == style]


def _shown(node):
    below = [_shown(child) + (child.tail or "") for child in node if child.tag != f"{SVG}title"]
    inside = [child.tail or "" for child in node if child.tag == f"{SVG}title"]
    return "".join([node.text or "", *inside, *below])


def titles(svg):
    return [node.text for node in ET.fromstring(svg).iter(f"{SVG}title")]


class TestText:
    def test_a_step_with_all_that_can_be_said(self):
        assert text_of(diamond()).splitlines() == [
            "Job diamond: 1 source, 4 steps in 3 operators, 2 sinks",
            "",
            "Sources",
            "  1  kafka: payments",
            "",
            "Operator 2",
            "  top (Count)",
            "     from     source 1",
            "     key      card string; 32 key groups, backend heap",
            "     value    card string",
            "     timers   later: event time",
            "     gives    main to left, right, sink 2",
            "",
            "Operator 1, shared by 2 steps",
            "  left (Count)",
            "     from     top.main: Filter",
            "     key      card string; 32 key groups, backend heap",
            "     value    card string",
            "     windows  FixedWindows(size 1 hour)",
            "     gives    main to both",
            "  right (Count)",
            "     from     top.main: directly, in Arrow",
            "     key      card string; 32 key groups, backend heap",
            "     value    card string",
            "     limits   max_keys 10: fail",
            "     gives    main to both",
            "",
            "Operator 0",
            "  both (Count)",
            "     from     left.main",
            "              right.main",
            "     key      card string; 32 key groups, backend heap",
            "     value    card string",
            "     trigger  AfterCount, discarding",
            "     gives    main to sink 1",
            "",
            "Sinks",
            "  1  Parquet('/data/out')",
            "     from     both.main",
            "     columns  card string",
            "  2  Collect(0 rows)",
            "     from     top.main: Project, Union",
            "     columns  card string",
        ]

    def test_an_output_that_nothing_takes(self):
        assert "late, which nothing takes" in text_of(small())

    def test_a_function_that_is_named_like_its_step_is_not_told_twice(self):
        assert "  Count\n" in text_of(small(name="Count"))

    def test_operators_without_a_number_and_without_steps(self):
        graph = small()
        operators = (replace(graph.operators[0], number=None), OperatorView(0, 1, ()))
        text = text_of(replace(graph, operators=operators))
        assert "\nAn operator\n" in text
        assert "\nOperator 0, kept for the state of removed steps\n" in text

    def test_many_columns_are_cut_and_stay_whole(self):
        columns = tuple(ColumnView(f"column_{number}", "bigint") for number in range(100))
        graph = small()
        lines = text_of(replace(graph, sinks=(replace(graph.sinks[0], columns=columns),))).splitlines()
        first = next(number for number, line in enumerate(lines) if "columns  column_0 bigint" in line)
        assert "(100 columns)" in " ".join(lines[first:])
        assert not any(line.strip().startswith("bigint") for line in lines)

    def test_which_steps_share_an_operator(self):
        assert diamond().sharing("left") == ("right",)
        assert diamond().sharing("top") == ()


class TestPicture:
    def test_everything_is_in_it(self):
        svg = svg_of(diamond())
        assert texts(svg, "hf-title") == ["kafka", "top", "left", "right", "both", "Parquet('/data/out')", "Collect(0 rows)"]
        assert texts(svg, "hf-note") == ["operator 2", "operator 1", "operator 0"]
        assert texts(svg, "hf-label") == ["Filter", "directly", "Project, Union"]
        lines = texts(svg, "hf-line")
        assert {"timerlater: event time", "windowsFixedWindows(size 1 hour)", "limitsmax_keys 10: fail"} <= set(lines)

    def test_an_edge_tells_its_rows_when_one_points_at_it(self):
        assert "top.main to right: directly, in Arrow\ncard string" in titles(svg_of(diamond()))

    def test_outputs_are_told_apart_where_there_are_several(self):
        assert texts(svg_of(small()), "hf-label") == ["Filter", "main"]

    def test_boxes_do_not_overlap_and_are_inside(self):
        svg = svg_of(diamond())
        root = ET.fromstring(svg)
        boxes = [_rect(node) for node in root.iter(f"{SVG}rect") if "hf-box" in node.get("class", "")]
        width, height = float(root.get("width")), float(root.get("height"))
        assert len(boxes) == 7
        for number, (left, top, right, bottom) in enumerate(boxes):
            assert 0 <= left < right <= width
            assert 0 <= top < bottom <= height
            for other in boxes[:number]:
                assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top

    def test_it_is_the_same_every_time(self):
        assert svg_of(diamond()) == svg_of(diamond())

    def test_it_asks_for_nothing_from_elsewhere(self):
        svg = svg_of(diamond())
        assert re.findall(r"https?://[^\"]*", svg) == ["http://www.w3.org/2000/svg"]
        assert not {"script", "image", "use", "a", "foreignObject"} & {
            node.tag.removeprefix(SVG) for node in ET.fromstring(svg).iter()
        }

    def test_it_is_dark_where_that_is_wanted(self):
        assert "@media (prefers-color-scheme:dark)" in svg_of(diamond())

    def test_a_long_name_is_cut_and_can_be_seen_whole(self):
        name = "a very long name " * 20
        svg = svg_of(small(name=name))
        [shown] = [title for title in texts(svg, "hf-title") if title.startswith("a very")]
        assert shown.endswith("…")
        assert len(shown) < 60
        assert name in titles(svg)

    def test_many_cells_are_cut(self):
        graph = small()
        [operator] = graph.operators
        cells = tuple(CellView(f"cell {number}", "bag", "plain") for number in range(30))
        changed = replace(operator, steps=(replace(operator.steps[0], cells=cells),))
        assert "… and 25 more lines" in texts(svg_of(replace(graph, operators=(changed,))), "hf-line")

    def test_of_no_steps_and_of_nothing(self):
        read = SourceView(1, "rate")
        only = GraphView("copy", (read,), (), (SinkView(1, "Collect(0 rows)", CARD, (edge(read),)),))
        assert texts(svg_of(only), "hf-title") == ["rate", "Collect(0 rows)"]
        ET.fromstring(svg_of(GraphView("empty", (), (), ())))

    def test_a_job_of_many_steps(self):
        read = SourceView(1, "rate")
        levels = []
        for level in range(6):
            above = [OutputView(f"{level - 1}-{number}", "main") for number in range(8)] if level else [read]
            levels.append(tuple(step(f"{level}-{number}", *map(edge, above)) for number in range(8)))
        operators = tuple(OperatorView(5 - level, level, steps) for level, steps in enumerate(levels))
        sinks = tuple(SinkView(n + 1, f"sink {n}", CARD, (edge(OutputView(f"{n}-{n}", "main")),)) for n in range(6))
        ET.fromstring(svg_of(GraphView("many", (read,), operators, sinks)))


def _rect(node):
    left, top, width, height = (float(node.get(name)) for name in ("x", "y", "width", "height"))
    return left, top, left + width, top + height


HOSTILE = [
    "</text><script>alert(1)</script>",
    "]]>",
    "<!--",
    "&amp; &lt; &#0;",
    "\"'><svg onload='x'>",
    "a\x00b\x1b[31m",
    "\ud800",
    "\ufffe\uffff",
    "line\nbreak\r\n",
    "\u202eright to left",
    "漢字" * 50,
    "",
    " ",
    "{}%s\\",
]


class TestNames:
    @pytest.mark.parametrize("name", HOSTILE)
    def test_a_hostile_name_does_no_harm(self, name):
        self.check(name)

    @settings(max_examples=200, deadline=None)
    @given(st.text(st.characters(), max_size=200))
    def test_any_name(self, name):
        self.check(name)

    def check(self, name):
        graph = small(name, source=name, sink=name, tag=name, cell=name)
        plain = svg_of(small())
        svg = svg_of(replace(graph, job=name))
        kinds = [node.tag for node in ET.fromstring(svg).iter()]
        assert set(kinds) == {node.tag for node in ET.fromstring(plain).iter()}
        svg.encode()
        text = text_of(replace(graph, job=name))
        text.encode()
        assert all(letter.isprintable() or unicodedata.category(letter) == "Zs" for letter in text.replace("\n", ""))
        assert max(map(len, text.splitlines())) <= 100


class TestExplanation:
    def test_it_is_its_text(self):
        explanation = Explanation(small())
        assert str(explanation) == repr(explanation) == text_of(small())

    def test_a_notebook_shows_the_picture(self):
        explanation = Explanation(small())
        assert explanation.svg in explanation._repr_html_()

    @pytest.mark.parametrize("name", ["graph.svg", "graph.SVG"])
    def test_saved_as_a_picture(self, tmp_path, name):
        Explanation(small()).save(tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8") == Explanation(small()).svg

    def test_saved_as_text(self, tmp_path):
        Explanation(small()).save(str(tmp_path / "graph.txt"))
        assert (tmp_path / "graph.txt").read_text(encoding="utf-8") == f"{Explanation(small())}\n"

    def test_not_saved_as_what_it_is_not(self, tmp_path):
        with pytest.raises(InputError, match=r"\.svg or \.txt"):
            Explanation(small()).save(tmp_path / "graph.png")
        assert not list(tmp_path.iterdir())


class TestWords:
    @pytest.mark.parametrize(
        ("micros", "words"),
        [
            (3_600_000_000, "1 hour"),
            (90_000_000, "90 seconds"),
            (172_800_000_000, "2 days"),
            (1_500, "1,500 microseconds"),
            (0, "0 seconds"),
        ],
    )
    def test_durations(self, micros, words):
        assert duration_words(micros) == words

    def test_coders(self):
        inner = {"id": "nullable", "version": 1, "inner": {"id": "varint", "version": 1}}
        assert (
            coder_words({"id": "tuple", "version": 1, "components": [{"id": "float"}, inner]})
            == "tuple[float, nullable[varint]]"
        )
        assert coder_words({"id": "record", "class": "shop.Order", "fields": {"a": "int"}}) == "record Order"
        assert coder_words({"id": "shop.coders.f.<locals>.Sealed", "password": "1234"}) == "Sealed"

    def test_combiners(self):
        assert combiner_words("holdfast.model.aggregate.combine.BuiltinSum") == "sum"
        assert combiner_words("shop.Basket") == "Basket"

    def test_lifetimes(self):
        ttl = {"micros": 60_000_000, "refresh": "read", "expired": "never", "time": "event"}
        assert ttl_words(ttl) == "1 minute of event time after use"

    def test_windows(self):
        fixed = {"id": "holdfast.FixedWindows", "version": 1, "size_micros": 3_600_000_000, "offset_micros": 0}
        assert window_words({"window_fn": fixed, "allowed_lateness_micros": 0}) == "FixedWindows(size 1 hour)"
        own = {"id": "shop.Seasons", "version": 3}
        assert window_words({"window_fn": own, "allowed_lateness_micros": 60_000_000}) == "Seasons, late by up to 1 minute"
        assert window_words({"window_fn": {"id": "holdfast.GlobalWindows"}, "allowed_lateness_micros": 0}) == ""

    def test_limits(self):
        assert (
            limit_words(Limits(max_keys=1000, max_bytes=5, policy="evict_lru")) == "max_keys 1,000, max_bytes 5: evict_lru"
        )
        assert limit_words(None) == ""

    @pytest.mark.parametrize(
        ("place", "shown"),
        [
            ("s3a://KEY:SECRET@bucket/in", "s3a://…@bucket/in"),
            ("s3a://KEY:SEC/RET@bucket/in", "s3a://…@bucket/in"),
            ("abfss://container@account.dfs.core.windows.net/in", "abfss://container@account.dfs.core.windows.net/in"),
            ("https://account/blob?sv=1&sig=SECRET", "https://account/blob?…"),
            ("hdfs://node:8020/in/a@b", "hdfs://node:8020/in/a@b"),
            ("/data/2024-0?/*", "/data/2024-0?/*"),
            ("Sqlite('postgresql://me:pw@host/db?sslkey=x', 'rows')", "Sqlite('postgresql://…@host/db?…', 'rows')"),
        ],
    )
    def test_places_without_secrets(self, place, shown):
        assert without_secrets(place) == shown


class TestMeasure:
    @given(st.text(max_size=80), st.floats(20, 400))
    def test_a_cut_text_has_room(self, text, widest):
        assert width_of(cut(text, 12.0, widest), 12.0) <= widest

    def test_what_has_room_stays(self):
        assert cut("short", 12.0, 100.0) == "short"
