"""Key groups of Arrow columns are those that Spark assigns, whatever is in the columns."""

from __future__ import annotations

import random
import string
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from holdfast.spark.stages.assign import key_column, key_group
from holdfast.spark.stages.hashing import can_hash, key_groups_of

ROWS = 5000
KEY_GROUPS = 1_000_003
LETTERS = string.ascii_letters + "äß日本語😀\x00"


def bits(rng, count):
    """Numbers of any size; of those with many bits there are no more than of others."""
    return [rng.getrandbits(rng.randrange(count + 1)) for _ in range(ROWS)]


def signed(rng, count):
    return [rng.choice((number, ~number)) for number in bits(rng, count - 1)]


def floats(rng, kind, count):
    """Any bits at all, so also NaNs of every kind, and many zeros with both signs."""
    zeros = [0, 1 << (count - 1)]
    raw = [rng.choice(zeros) if rng.random() < 0.1 else rng.getrandbits(count) for _ in range(ROWS)]
    nans = np.array(raw, f"u{count // 8}")
    exponent = {32: 0x7F800000, 64: 0x7FF0000000000000}[count]
    nans[: ROWS // 10] |= nans.dtype.type(exponent)
    return pa.array(nans).view(kind)


def decimals(rng, precision, scale):
    """Of any number of digits, and around the powers of two, where one byte more is needed."""
    digits = [10 ** rng.randrange(precision + 1) for _ in range(ROWS // 2)]
    numbers = [rng.randrange(1 - most, most) for most in digits]
    largest = 10**precision - 1
    near = [2 ** rng.randrange(largest.bit_length()) + rng.randrange(-2, 3) for _ in range(ROWS - len(numbers))]
    numbers += [rng.choice((1, -1)) * min(number, largest) for number in near]
    return pa.array([Decimal(f"{number}e-{scale}") for number in numbers], pa.decimal128(precision, scale))


def texts(rng, longest):
    return ["".join(rng.choices(LETTERS, k=rng.randrange(longest + 1))) for _ in range(ROWS)]


def with_nulls(rng, column, part):
    valid = pa.array([rng.random() >= part for _ in range(ROWS)])
    return pc.if_else(valid, column, pa.scalar(None, column.type))


def columns(rng):
    """A column of each type, by name."""
    micros = signed(rng, 56)
    return {
        "boolean": pa.array([rng.random() < 0.5 for _ in range(ROWS)]),
        "byte": pa.array(signed(rng, 8), pa.int8()),
        "short": pa.array(signed(rng, 16), pa.int16()),
        "int": pa.array(signed(rng, 32), pa.int32()),
        "long": pa.array(signed(rng, 64), pa.int64()),
        "float": floats(rng, pa.float32(), 32),
        "double": floats(rng, pa.float64(), 64),
        "short_text": pa.array(texts(rng, 12)),
        "long_text": pa.array(texts(rng, 100)),
        "repeated": pa.array(rng.choices(["", "a", "ü", "x" * 40], k=ROWS)),
        "bytes": pa.array([rng.randbytes(rng.randrange(101)) for _ in range(ROWS)]),
        "date": pa.array(signed(rng, 20), pa.int32()).view(pa.date32()),
        "timestamp": pa.array(micros, pa.int64()).view(pa.timestamp("us", tz="UTC")),
        "timestamp_ntz": pa.array(micros, pa.int64()).view(pa.timestamp("us")),
        "interval": pa.array(signed(rng, 60), pa.int64()).view(pa.duration("us")),
        "decimal_9_2": decimals(rng, 9, 2),
        "decimal_18_0": decimals(rng, 18, 0),
        "decimal_19_0": decimals(rng, 19, 0),
        "decimal_38_10": decimals(rng, 38, 10),
    }


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.night)])
def test_as_spark_assigns_them(spark, seed):
    """Each column by itself, all of them in both directions, and some at random."""
    rng = random.Random(seed)
    made = {name: with_nulls(rng, column, part=rng.choice((0, 0.1))) for name, column in columns(rng).items()}
    assert can_hash([column.type for column in made.values()])
    names = list(made)
    keys = [[name] for name in names] + [names, names[::-1]]
    keys += [rng.sample(names, rng.randrange(2, 5)) for _ in range(20)]

    df = spark.createDataFrame(pa.table({"row": range(ROWS), **made}))
    types = {field.name: field.dataType for field in df.schema.fields}
    assigned = df.select(
        "row",
        *(
            key_group([key_column(name, types[name]) for name in key], KEY_GROUPS).alias(f"k{n}")
            for n, key in enumerate(keys)
        ),
    )
    expected = assigned.toArrow().sort_by("row")

    for n, key in enumerate(keys):
        found = key_groups_of([made[name] for name in key], KEY_GROUPS)
        np.testing.assert_array_equal(found, expected[f"k{n}"].to_numpy(), err_msg=" ".join(key))
