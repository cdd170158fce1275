"""What one BB node keeps: the pool, its extents, the index and the state of each stream."""
