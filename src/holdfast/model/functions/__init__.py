"""What a user writes, and the step that is made of it: checked as a whole, every problem reported."""
