"""The repositories that our own targets need, none of them from the network."""

load("//third_party/tensorflow:source.bzl", "tensorflow_source")
load("//third_party/tensorflow:wheel.bzl", "tensorflow_wheel")

def tf_malleable_repositories():
    """Defines the repositories."""

    # Bazel wants these for itself, and would download them.
    for name in [
        "bazel_skylib",
        "remote_coverage_tools",
        "rules_cc",
        "rules_java",
        "rules_python",
    ]:
        native.local_repository(
            name = name,
            path = "third_party/" + name,
        )

    # The TensorFlow that is installed: what we are built against.
    tensorflow_wheel(name = "tensorflow_wheel")

    # TensorFlow's sources with our patches; fetched by `make tensorflow-wheel` only.
    tensorflow_source(
        name = "tensorflow_source",
        sha256 = "ef3568bb4865d6c1b2564fb5689c19b6b9a5311572cd1f2ff9198636a8520921",
        strip_prefix = "tensorflow-2.21.0",
        urls = ["https://github.com/tensorflow/tensorflow/archive/refs/tags/v2.21.0.tar.gz"],
    )
