"""What is kept of steps that were folded: states in shared memory, and the tables that say which of them count."""
