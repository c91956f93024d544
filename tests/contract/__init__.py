"""The behaviour of a step, as a user sees it: one suite for every runtime and every backend."""
