"""How our C++ is compiled."""

COPTS = [
    "-Wall",
    "-Wextra",
    "-fvisibility=hidden",
]
