"""State that outlives a run: saved, taken over by the next one, and merged with that of others."""
