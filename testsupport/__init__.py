"""What several of the test folders share: waiting, processes, nodes, servers, mounts, and files that aren't ours.

Fixtures that all folders may ask for stand in `nodes`, which the conftest at the root loads.
"""
