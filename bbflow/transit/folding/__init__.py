"""The fold: steps into the partial states of shards, what counts of them, and what they come to."""
