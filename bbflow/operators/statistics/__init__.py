"""The statistics: what each family keeps for a point, and the operators that are made of it."""
