"""What a run is to do, as people write it and as records."""
