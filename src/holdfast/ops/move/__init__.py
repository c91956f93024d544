"""State in another place or another shape: savepoints, rescaling, export and import; and stopping a job for it."""
