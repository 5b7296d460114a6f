"""The version, in the one place that the wheel, the report and saved runs read it from."""

__all__ = ["__version__"]

__version__ = "0.2.0.dev0"
