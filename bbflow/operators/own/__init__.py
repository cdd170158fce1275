"""Users' operators: how they are found, handed groups of steps, and kept from harming the others."""
