"""What users write with: functions, cells, time, windows, combiners and coders. It contains no engine.

Imports go from left to right: time, coders, windows, aggregate, state, functions.
"""
