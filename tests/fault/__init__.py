"""Fault tests: a history of what was done to a running job, and a checker of what came out of it.

- `stream`: the input, from a seed, as files.
- `ledger`: the step under test, which uses every kind of cell and a timer.
- `oracle`: what the step must give for the files, computed without Holdfast.
- `events`, `pipeline`, `pipeline_oracle`: the same for a graph of two steps and five sinks.
- `checker`: compares the two, and says true, false or unknown.
- `driver`: either job, a program of its own, so that it can be killed.
- `running`: starts, watches and kills that program.

A seed decides the input and the moments of all faults. `HOLDFAST_FAULT_SEED=7` (or `7,8,9`) replays it.
"""
