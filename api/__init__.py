"""The ways in: REST and the command line."""
