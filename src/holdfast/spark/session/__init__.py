"""Sessions: the settings that steps need, and how Python processes are started."""
