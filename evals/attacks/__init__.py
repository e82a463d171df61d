"""Attacks on a server of our own, each beside a control that shows it would be seen."""
