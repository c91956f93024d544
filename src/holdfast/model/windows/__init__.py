"""Windows: what they are, which window an element belongs to, and how a window is stored."""
