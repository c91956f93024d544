"""What happens inside one key group: from elements, clocks and a store to outputs. Knows nothing about runtimes.

Imports go from right to left: run, backends, stored, log, metrics, state, tables.
"""
