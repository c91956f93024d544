"""What stored state depends on, how newer code takes it over, and how tools read it without the code."""
