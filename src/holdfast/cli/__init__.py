"""The command line: one group of commands a file, each command a thin layer over `holdfast.ops`."""
