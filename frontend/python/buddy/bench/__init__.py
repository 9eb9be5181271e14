"""Measurements against other implementations on the same machine, in one run."""
