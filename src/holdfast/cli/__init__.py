"""The command line: one command group per file, each command a thin layer over `holdfast.ops`."""
