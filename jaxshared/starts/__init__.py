"""Starting factors: random, from singular vectors, from views, matched between sources."""
