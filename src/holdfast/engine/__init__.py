"""What happens inside one key group: given elements, clocks and a store, it gives outputs. It knows no runtime.

Imports go from right to left: run, backends, stored, log, metrics, state, tables.
"""
