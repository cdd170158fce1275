"""A run: a simulation with its analysis, from what is checked before to its last word."""
