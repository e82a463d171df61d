"""How fast, against what, in the same run. `python -m benchmarks [NAME]`."""
