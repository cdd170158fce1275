"""Files that nodes with burst buffers of their own lend each other: one asks the source, the others ask nodes."""
