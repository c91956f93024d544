"""What Python runs first in each process that Spark starts on this machine; see `spark/session/home.py`."""
