"""The description of a job as text and as a picture."""
