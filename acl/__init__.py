"""Who may read what: the ground floor, with every table and the only commit."""
