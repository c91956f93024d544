"""What a step remembers: the specs of cells, how long they live, how much there may be, how they change."""
