"""Sources: dense, sparse, from files, from text, made up, and graphs of their samples."""
