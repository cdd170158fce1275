"""Files before cloud storage: compute nodes, I/O nodes and an S3 server as hosts of one machine."""
