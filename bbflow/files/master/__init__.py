"""A master: owns names, places and sessions of its subtree, and keeps them in a database."""
