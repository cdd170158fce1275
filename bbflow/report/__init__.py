"""The report at the end of a run: one HTML file that opens without a network, and its pictures as PNG."""

REPORT_FILES = ("report.html", ".report.html.*", "figures/.*.png.*")
"""What a report consists of beside its pictures, which are claimed one by one."""
