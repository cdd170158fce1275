"""What spans that have ended come to: partial states are merged over shards and nodes, and written as results."""
