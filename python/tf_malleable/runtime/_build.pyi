"""Written by the build; this stands for it in type checks."""

TENSORFLOW_VERSION: str
