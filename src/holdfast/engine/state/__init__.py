"""The state of a key group in memory, with its indexes: which timers are due, what expires, how large it is."""
