"""Burst-buffer staging for Pegasus: catalogs and properties change, the workflow doesn't."""
