"""Compiler options for our C++."""

COPTS = [
    "-Wall",
    "-Wextra",
    "-fvisibility=hidden",
]
