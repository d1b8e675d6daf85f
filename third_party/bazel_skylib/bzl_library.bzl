"""What documents Bazel's rules, as nothing that is built here needs it: a list of files."""

def bzl_library(name, srcs = [], deps = [], visibility = None):
    """Lists files.

    Args:
      name: The name of the list.
      srcs: Files in it.
      deps: Other lists in it.
      visibility: Who may use it.
    """
    native.filegroup(
        name = name,
        srcs = srcs + deps,
        visibility = visibility,
    )
