"""What users call: `keyed`, and the steps that can be put on a keyed stream."""
