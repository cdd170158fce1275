"""The logical file over all BB nodes."""
