"""The routes, each thin: parse, ask the domain, write the answer."""
