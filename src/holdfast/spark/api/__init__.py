"""What users call: `keyed`, and the steps of a keyed stream."""
