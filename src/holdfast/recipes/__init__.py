"""Ready-made functions: import one, or read it as an example. docs/recipes.md has a table of all of them.

The docstring of each says what it keeps for each key, when that is freed, and whether it needs its elements in order of
event time; a step that does not ask for the order is then refused. Elements are (key, value). A value is a plain value, or a
row; fields of a row are given by their names.

What decides is always the times of elements. Timers only free what is no longer needed, or say that nothing more can come.
So the results do not depend on how a stream was cut into micro-batches, and a micro-batch that runs again does the same.
"""

from holdfast.recipes.anomalies import Anomalies
from holdfast.recipes.batches import GroupIntoBatches, stored_size
from holdfast.recipes.columns import AssignIndexColumns, FirstOccurrenceColumns, RunningCountColumns
from holdfast.recipes.counting import AssignIndex, CountWhileActive, RunningCount
from holdfast.recipes.duplicates import FirstOccurrence, FirstOccurrenceWithin
from holdfast.recipes.enrichment import TemporalJoin
from holdfast.recipes.features import DecayingFeatures
from holdfast.recipes.machines import StateMachine
from holdfast.recipes.markets import MovingPrices, Vwap
from holdfast.recipes.models import Moments, MovingMoments, OnlineModel
from holdfast.recipes.rates import CountLimit, SlidingLimit, TokenBucket
from holdfast.recipes.river_models import Detector, RiverModel
from holdfast.recipes.sensors import RollingAlert
from holdfast.recipes.sequences import Sequence
from holdfast.recipes.taxis import RideTotals, ZoneRides
from holdfast.recipes.tops import TopItem, TopItems
from holdfast.recipes.trails import ClickTrail
from holdfast.recipes.travel import ImpossibleTravel, great_circle_km
from holdfast.recipes.velocity import Velocity

__all__ = [
    "Anomalies",
    "AssignIndex",
    "AssignIndexColumns",
    "ClickTrail",
    "CountLimit",
    "CountWhileActive",
    "DecayingFeatures",
    "Detector",
    "FirstOccurrence",
    "FirstOccurrenceColumns",
    "FirstOccurrenceWithin",
    "GroupIntoBatches",
    "ImpossibleTravel",
    "Moments",
    "MovingMoments",
    "MovingPrices",
    "OnlineModel",
    "RideTotals",
    "RiverModel",
    "RollingAlert",
    "RunningCount",
    "RunningCountColumns",
    "Sequence",
    "SlidingLimit",
    "StateMachine",
    "TemporalJoin",
    "TokenBucket",
    "TopItem",
    "TopItems",
    "Velocity",
    "Vwap",
    "ZoneRides",
    "great_circle_km",
    "stored_size",
]
