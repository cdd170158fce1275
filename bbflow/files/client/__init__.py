"""Who reads and writes: sessions, open files, the fsspec door."""
