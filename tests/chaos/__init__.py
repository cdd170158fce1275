"""Harm done to real runs, at random and line by line of docs/trust.md; see `make chaos`."""
