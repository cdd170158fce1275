"""Which transfers, no-op jobs and edges make waves of a planned workflow: one answer for the refiner and for `wave`."""
