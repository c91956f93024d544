"""`python -m holdfast`: the command line, also where its script is not on the path."""

from holdfast.cli.main import run

run()
