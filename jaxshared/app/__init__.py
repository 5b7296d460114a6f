"""The application: the command line, runs in folders, the demo, plots and reports."""
