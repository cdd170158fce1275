"""An IOnode: keeps pieces of files in its memory, and moves them from and to the storage."""
