"""What users write with: functions, cells, time, windows, combiners and coders. No engine is in it.

Imports go from left to right: time, coders, windows, aggregate, state, functions.
"""
