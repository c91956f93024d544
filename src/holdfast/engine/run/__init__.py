"""Running a step: elements in, calls of the function, timers, outputs."""
