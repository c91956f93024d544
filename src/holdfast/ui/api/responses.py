"""What the API answers with; texts in it are made visible and bounded by whoever fills them in."""

from __future__ import annotations

from pydantic import BaseModel, JsonValue

__all__ = [
    "Cell",
    "Checkpoints",
    "Declared",
    "Event",
    "GroupHeat",
    "HealthView",
    "HotKey",
    "JobView",
    "Jobs",
    "KeyLife",
    "KeyState",
    "KeyTotal",
    "KeyWindow",
    "Keys",
    "LifeEntry",
    "MeasureView",
    "Problem",
    "Retained",
    "Row",
    "RowPage",
    "SavepointView",
    "StepState",
    "StepStates",
    "StoredOperator",
    "Summary",
    "SymptomView",
]


class Problem(BaseModel):
    """What went wrong, and what to do."""

    what: str
    detail: str = ""
    todo: str = ""


class MeasureView(BaseModel):
    """A number with its thresholds; `level` is ok, unknown, warning or critical."""

    name: str
    title: str
    text: str
    value: float | None
    level: str
    warning: float | None
    critical: float | None
    unit: str
    of: str
    """What has the value: a step, a key group, a key."""
    todo: str


class SymptomView(BaseModel):
    """Something that is wrong, with its evidence and what to do."""

    name: str
    title: str
    level: str
    evidence: str
    todo: str
    step: str | None
    key: str | None


class HealthView(BaseModel):
    """What a job's history says about it; `notes` say what limits that."""

    level: str
    measures: list[MeasureView]
    symptoms: list[SymptomView]
    notes: list[str]


class Summary(BaseModel):
    """A job in a few numbers, as of its last micro-batch."""

    id: str
    name: str
    checkpoint: str
    is_running: bool
    version: int
    level: str
    symptoms: list[SymptomView]
    batch: int | None
    at_ms: int | None
    duration_ms: int | None
    rows_per_second: float | None
    """Over the last micro-batches."""
    keys: int | None
    state_bytes: int | None
    steps: list[str]
    recent_rows: list[int]
    """Of the last micro-batches, at most 60."""


class Jobs(BaseModel):
    """The jobs of this dashboard. `now_ms` is the time here, which may differ from the browser's."""

    now_ms: int
    jobs: list[Summary]


class Event(BaseModel):
    """The job started, failed or stopped."""

    event: str
    at_ms: int
    batch: int | None
    text: str


class JobView(BaseModel):
    """A job with its health, and what happened to it lately."""

    now_ms: int
    summary: Summary
    health: HealthView
    events: list[Event]
    used_by: str | None
    unreadable: int
    """Lines of its history that could not be read."""


class HotKey(BaseModel):
    """A key with its elements or bytes."""

    key: str
    count: int


class GroupHeat(BaseModel):
    """Key groups as columns; each place stands for `labels_each` labels that follow each other."""

    labels_each: int
    labels: list[int]
    elements: list[int]
    keys: list[int]
    bytes: list[int]


class Keys(BaseModel):
    """A step's key groups and busiest and largest keys, after a micro-batch."""

    step: str | None
    steps: list[str]
    batch: int | None
    batches: list[int]
    """Those that are known in this detail."""
    groups: GroupHeat
    hot: list[HotKey]
    heavy: list[HotKey]


class Declared(BaseModel):
    """A cell or timer that a step declares."""

    name: str
    is_timer: bool
    doc: str = ""


class StepState(BaseModel):
    """A step that has state."""

    name: str
    key: str
    cells: list[Declared]
    key_groups: int
    backend: str


class Retained(BaseModel):
    """A micro-batch whose state can be read."""

    batch: int
    at_ms: int | None


class StepStates(BaseModel):
    """The steps of a job, and the micro-batches after which their state can be read."""

    batch: int | None
    retained: list[Retained]
    steps: list[StepState]


class Cell(BaseModel):
    """A value as text, and what became of it since the other micro-batch: same, added, changed or removed."""

    text: str
    what: str
    old: str | None = None
    expires_at: str | None = None


class Row(BaseModel):
    """The cells of a key and window."""

    key: str
    """As it is asked for."""
    key_text: str
    """For people: every character is visible."""
    is_key_cut: bool = False
    """Whether the key is longer than can be asked for; then this is its beginning."""
    window: str
    what: str
    cells: dict[str, Cell]


class RowPage(BaseModel):
    """Some rows of a step's state, compared with another micro-batch if one was given."""

    step: str
    batch: int
    compare: int | None
    columns: list[str]
    rows: list[Row]
    is_cut: bool
    """Whether keys of this page have more windows than are shown."""
    offset: int
    keys: int
    """How many keys are on this page."""
    more: bool
    """Whether more keys follow."""


class KeyTotal(BaseModel):
    """How many keys there are, with a prefix if one was given."""

    step: str
    batch: int
    keys: int


class KeyWindow(BaseModel):
    """A window of a key. Values are JSON; what JSON does not have is an object with one name that begins with $."""

    window: str
    cells: dict[str, JsonValue]
    texts: dict[str, str]
    expires_at: dict[str, str]


class KeyState(BaseModel):
    """The state of one key after a committed micro-batch."""

    job: str
    step: str
    key: str
    batch: int
    windows: list[KeyWindow]
    is_cut: bool


class LifeEntry(BaseModel):
    """What a micro-batch did to a cell of a key: added, changed or removed it."""

    batch: int
    at_ms: int | None
    window: str
    cell: str
    what: str
    old: str
    new: str


class KeyLife(BaseModel):
    """What each retained micro-batch did to a key."""

    step: str
    key: str
    key_text: str
    """For people: every character is visible."""
    retained: list[Retained]
    entries: list[LifeEntry]
    is_cut: bool


class StoredOperator(BaseModel):
    """A stateful operator's files."""

    number: int
    name: str
    steps: list[str]
    partitions: int
    snapshots: int
    changelogs: int
    snapshot_bytes: int
    changelog_bytes: int


class SavepointView(BaseModel):
    path: str
    job: str | None
    batch: int
    created_at: str
    bytes: int
    is_of_this_job: bool


class Checkpoints(BaseModel):
    """What a checkpoint holds, and the savepoints that were found."""

    checkpoint: str
    used_by: str | None
    committed: int
    first_committed: int | None
    last_committed: int | None
    planned: list[int]
    watermark: str | None
    retained: list[Retained]
    operators: list[StoredOperator]
    sizes: dict[str, int]
    savepoints: list[SavepointView]
    unusable: list[str]
    looked_in: list[str]
