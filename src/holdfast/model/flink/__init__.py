"""What Flink's words stand for here: each gives something of the model. `holdfast.flink` is the door to them."""
