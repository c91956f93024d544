"""The command line: one command a file, each a thin layer over `holdfast.ops`."""
