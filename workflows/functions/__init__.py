"""Functions that are called with whole fields: they look for lows, and run a small neural network."""
