"""The mount: BB nodes' files, and streams, as a directory for programs that know files only."""
