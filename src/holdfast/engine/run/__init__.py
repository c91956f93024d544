"""Running a step: elements in, function calls, timers, outputs."""
