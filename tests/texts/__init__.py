"""The code of four public texts about state in streams, as they have it, run here."""
