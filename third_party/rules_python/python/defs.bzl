"""The rules for Python that are built into Bazel, under the name Bazel looks for them."""

py_binary = native.py_binary
py_library = native.py_library
py_test = native.py_test
