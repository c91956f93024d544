"""How stored key groups are rewritten for changed code, without Spark: also those that had no input for a while."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import holdfast as hf
from holdfast.engine.state.key_group import Layout
from holdfast.engine.stored.evolution import MANIFEST, came_along
from holdfast.engine.stored.manifest import Evolution, make_manifest, read_manifest
from holdfast.engine.stored.reading import Blobs, read_group
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.step import build_step
from holdfast.spark.graph.converting import Conversion
from holdfast.testing import TestStream, run


def keeping(spec):
    class Keeping(hf.DoFn):
        CELL = spec

        def process(self, element, cell=hf.DoFn.StateParam(CELL)):
            cell.write(element[1])
            yield element

    return Keeping()


CENTS = hf.ValueStateSpec("cents", hf.VarIntCoder())
EUROS = hf.ValueStateSpec("euros", hf.FloatCoder(), was="cents", upgrade=lambda cents: cents / 100)
TEXT = hf.ValueStateSpec("text", hf.StrUtf8Coder(), was="euros", upgrade=lambda euros: f"{euros:.2f}")


def stored(spec):
    """A key group as code with this cell has left it."""
    ran = run(keeping(spec), TestStream().add_elements([("k", 250)]), name="prices")
    return Blobs(ran.stores[0].committed)


def conversion(spec, recorded):
    step = build_step(keeping(spec), StepOptions(name="prices"))
    manifest = make_manifest(step.describe(), key=[], key_groups=1, backend="heap")
    plan = SimpleNamespace(name="prices", manifest=manifest, evolution=Evolution.of(step.cells))
    return Conversion(plan, recorded), Layout(step)


def manifest_of(blobs):
    return read_manifest(blobs.get(MANIFEST))


def values(blobs):
    return {cell.spec.name: cell.entry for cell in read_group(blobs).cells()}


def test_a_key_group_is_converted_without_input():
    blobs = stored(CENTS)
    first, layout = conversion(EUROS, manifest_of(blobs))
    first.convert(blobs, layout)
    assert [cell["name"] for cell in manifest_of(blobs)["cells"]] == ["euros"]
    second, layout = conversion(TEXT, manifest_of(blobs))
    second.convert(blobs, layout)
    assert list(values(blobs)) == ["text"]
    before = dict(blobs.items())
    second.convert(blobs, layout)
    assert dict(blobs.items()) == before


def test_a_key_group_that_missed_a_change_is_refused():
    """The second change would read it as what the first made of it."""
    blobs, later = stored(CENTS), stored(CENTS)
    first, layout = conversion(EUROS, manifest_of(later))
    first.convert(later, layout)
    second, layout = conversion(TEXT, manifest_of(later))
    with pytest.raises(hf.StateConflict, match="the cells have changed twice"):
        second.convert(blobs, layout)
    assert list(values(blobs)) == ["cents"]


def test_what_has_come_along():
    cents, euros = manifest_of(stored(CENTS)), manifest_of(stored(hf.ValueStateSpec("cents", hf.FloatCoder())))
    more = {**cents, "cells": [*cents["cells"], {**cents["cells"][0], "name": "new"}]}
    kept = {**cents, "cells": [{**cents["cells"][0], "kept": True, "doc": "since then"}]}
    assert came_along(cents, cents)
    assert came_along(cents, more)
    assert came_along(cents, kept)
    assert not came_along(more, cents)
    assert not came_along(cents, euros)
