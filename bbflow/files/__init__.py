"""Files on BB nodes: one POSIX namespace in memory before shared storage (FORMAT.md beside this module)."""
