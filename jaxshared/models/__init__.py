"""Models: one file per member, all on one template."""
