"""Times torpor against other libraries, interleaved in one process. `python -m bench --help`."""
