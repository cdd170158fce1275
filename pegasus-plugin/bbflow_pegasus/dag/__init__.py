"""Planned workflows in their submit directories: what DAGMan will read."""
