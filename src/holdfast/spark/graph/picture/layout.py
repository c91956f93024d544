"""Where the boxes and wires of a picture are: in layers, from top to bottom.

A layer is a row of groups, a group a row of boxes that stay together. A wire that skips a layer has a narrow place of its
own in it, so that no wire crosses a box. Layers are sorted so that few wires cross; then boxes move towards what they are
connected with. Sums are exact, so that the same graph gives the same picture with every version of Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import fsum

from holdfast.spark.graph.picture.wires import GapWire, gap_height, spread

__all__ = ["FRAME", "Box", "Group", "Wire", "arrange"]

FRAME = (14.0, 30.0, 14.0)
"""The room between the frame of a group and its boxes: at the sides, above, below."""
_MARGIN = 24.0
_BETWEEN_BOXES = 18.0
_BETWEEN_GROUPS = 34.0
_PASSING = 12.0
_SWEEPS = 6
_MOVES = 24


@dataclass(eq=False)
class Box:
    """A box, or a place where a wire passes a layer. `x` is its middle."""

    width: float
    height: float
    x: float = 0.0
    top: float = 0.0
    above: list[Box] = field(default_factory=list)
    below: list[Box] = field(default_factory=list)


@dataclass(eq=False)
class Group:
    """Boxes side by side, in a frame or not."""

    boxes: list[Box]
    is_framed: bool = False
    x: float = 0.0
    top: float = 0.0

    @property
    def width(self) -> float:
        inside = fsum(box.width for box in self.boxes) + _BETWEEN_BOXES * (len(self.boxes) - 1)
        return inside + (2 * FRAME[0] if self.is_framed else 0)

    @property
    def height(self) -> float:
        return max(box.height for box in self.boxes) + (FRAME[1] + FRAME[2] if self.is_framed else 0)

    def move(self, x: float) -> None:
        """Puts its middle there, with all boxes in their order."""
        self.x = x
        left = x - self.width / 2 + (FRAME[0] if self.is_framed else 0)
        for box in self.boxes:
            box.x = left + box.width / 2
            left += box.width + _BETWEEN_BOXES


@dataclass(eq=False)
class Wire:
    """A connection between boxes, with the width of its label."""

    origin: Box
    target: Box
    label: float = 0.0
    path: list[Box] = field(default_factory=list)
    """All boxes that it touches, with those where it passes a layer."""
    curves: list[GapWire] = field(default_factory=list)
    """How it goes from layer to layer; the first one has the label."""


def arrange(layers: list[list[Group]], wires: Sequence[Wire]) -> tuple[float, float]:
    """Places everything; gives the size of the picture."""
    if not layers:
        return 2 * _MARGIN, 2 * _MARGIN
    for wire in wires:
        _thread(layers, wire)
    for layer in layers:
        _pack(layer)
    for number in range(_SWEEPS):
        for layer in layers if number % 2 == 0 else reversed(layers):
            _sort(layer, down=number % 2 == 0)
    for _ in range(_MOVES):
        for layer in (*layers, *reversed(layers)):
            _settle(layer)
    left = min(group.x - group.width / 2 for layer in layers for group in layer)
    for layer in layers:
        for group in layer:
            group.move(group.x - left + _MARGIN)
    height = _stack(layers, wires)
    width = max(group.x + group.width / 2 for layer in layers for group in layer)
    labels = [curve.label_x + wire.label / 2 for wire in wires for curve in wire.curves[:1]]
    return max([width, *labels]) + _MARGIN, height


def _thread(layers: list[list[Group]], wire: Wire) -> None:
    """Gives a wire a place in each layer that it passes."""
    first, last = (_layer_of(layers, box) for box in (wire.origin, wire.target))
    passed = [Box(_PASSING, 0.0) for _ in range(first + 1, last)]
    for number, box in enumerate(passed, start=first + 1):
        layers[number].append(Group([box]))
    wire.path = [wire.origin, *passed, wire.target]
    for upper, lower in pairwise(wire.path):
        upper.below.append(lower)
        lower.above.append(upper)


def _layer_of(layers: list[list[Group]], box: Box) -> int:
    return next(number for number, layer in enumerate(layers) if any(box in group.boxes for group in layer))


def _pack(layer: list[Group]) -> None:
    """Puts groups side by side, around the middle."""
    left = -(fsum(group.width for group in layer) + _BETWEEN_GROUPS * (len(layer) - 1)) / 2
    for group in layer:
        group.move(left + group.width / 2)
        left += group.width + _BETWEEN_GROUPS


def _sort(layer: list[Group], *, down: bool) -> None:
    """Sorts a layer by what is above or below its boxes."""

    def place(box: Box) -> float:
        others = box.above if down else box.below
        return fsum(other.x for other in others) / len(others) if others else box.x

    for group in layer:
        group.boxes.sort(key=place)
    layer.sort(key=lambda group: fsum(map(place, group.boxes)) / len(group.boxes))
    _pack(layer)


def _settle(layer: list[Group]) -> None:
    """Moves groups as near as they can be to where their wires come from and go to, in their order."""
    # Without the room that they need, groups may only not overtake each other: that is a monotone regression.
    needed = [0.0]
    for one, other in pairwise(layer):
        needed.append(needed[-1] + one.width / 2 + _BETWEEN_GROUPS + other.width / 2)
    pools: list[tuple[float, int]] = []
    for group, room in zip(layer, needed, strict=True):
        pool = (_wish(group) - room, 1)
        while pools and pools[-1][0] > pool[0]:
            before, count = pools.pop()
            pool = ((before * count + pool[0] * pool[1]) / (count + pool[1]), count + pool[1])
        pools.append(pool)
    places = [place for place, count in pools for _ in range(count)]
    for group, place, room in zip(layer, places, needed, strict=True):
        group.move(place + room)


def _wish(group: Group) -> float:
    offsets = [other.x - (box.x - group.x) for box in group.boxes for other in (*box.above, *box.below)]
    return fsum(offsets) / len(offsets) if offsets else group.x


def _stack(layers: list[list[Group]], wires: Sequence[Wire]) -> float:
    """Puts the layers below each other, with as much room in between as the labels need; gives the height of all."""
    top = _MARGIN
    starts, ends = _ports(wires)
    for number, layer in enumerate(layers):
        bottom = top + max(group.height for group in layer)
        for group in layer:
            group.top = top
            for box in group.boxes:
                box.top = top + (FRAME[1] if group.is_framed else 0)
        here = {box for group in layer for box in group.boxes}
        curves = []
        for wire in wires:
            for place, (upper, lower) in enumerate(pairwise(wire.path)):
                if upper in here:
                    label = wire.label if place == 0 else 0.0
                    curve = GapWire(starts[wire, upper], ends[wire, lower], label)
                    wire.curves.append(curve)
                    curves.append(curve)
        is_last = number == len(layers) - 1
        top = bottom + (_MARGIN if is_last else gap_height(curves, bottom))
    return top


def _ports(wires: Sequence[Wire]) -> tuple[dict[tuple[Wire, Box], float], dict[tuple[Wire, Box], float]]:
    """Where wires leave and reach boxes: side by side, in the order of what is at their other ends."""
    leaving: dict[Box, list[tuple[Box, Wire]]] = {}
    reaching: dict[Box, list[tuple[Box, Wire]]] = {}
    for wire in wires:
        for upper, lower in pairwise(wire.path):
            leaving.setdefault(upper, []).append((lower, wire))
            reaching.setdefault(lower, []).append((upper, wire))
    return _spread_all(leaving), _spread_all(reaching)


def _spread_all(found: dict[Box, list[tuple[Box, Wire]]]) -> dict[tuple[Wire, Box], float]:
    places = {}
    for box, ends in found.items():
        ordered = sorted(ends, key=lambda end: end[0].x)
        for (_, wire), x in zip(ordered, spread(box.x, box.width, len(ordered)), strict=True):
            places[wire, box] = x
    return places
