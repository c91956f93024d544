"""The functions that users write, and the step built from one: checked as a whole, with every problem reported."""
