"""The dashboard: what jobs tell about themselves, and the state in their checkpoints, in a browser. It only reads."""
