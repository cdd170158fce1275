"""The BB node's agent: takes steps in, commits them, tells who waits, frees space."""
