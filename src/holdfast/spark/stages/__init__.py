"""What runs in Spark's Python processes: assign, pack, process, unpack."""
