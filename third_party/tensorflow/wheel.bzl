"""The installed TensorFlow as a repository: its headers, and its Eigen, patched."""

def _minor(version):
    return ".".join(version.split(".")[:2])

def _eigen_patches(ctx):
    """The patch that fits the Eigen of each TensorFlow that is supported, by minor version."""
    lines = ctx.read(Label("//patches:tensorflow_releases.txt")).splitlines()
    rows = [line.split(" ") for line in lines if not line.startswith("#")]
    return {_minor(version): ctx.path(Label("//patches:eigen/" + patch)) for version, patch in rows}

def _run(ctx, arguments):
    done = ctx.execute([str(argument) for argument in arguments])
    if done.return_code != 0:
        fail(done.stderr.strip() or done.stdout.strip())
    return done.stdout.strip()

def _find_python(ctx):
    """The Python whose TensorFlow it is; PYTHON_BIN_PATH, as in TensorFlow's own build."""
    python = ctx.os.environ.get("PYTHON_BIN_PATH") or ctx.which("python3.11") or ctx.which("python3")
    if not python:
        fail("no python3 on PATH; set PYTHON_BIN_PATH to the Python that has TensorFlow")
    return python

def _tensorflow_wheel_impl(ctx):
    # Before the work: a label that is resolved later starts the rule anew.
    find = ctx.path(Label("//python/tf_malleable:runtime/tensorflow_install.py"))
    headers = [
        ctx.path(Label("//cc/limits/eigen:%s.h" % name))
        for name in ["admission", "monotonic_condition", "stall_watch", "worker_hooks", "worker_records", "worker_starter"]
    ]
    patches = _eigen_patches(ctx)
    build = ctx.path(Label("//third_party/tensorflow:wheel.BUILD"))

    python = _find_python(ctx)
    version, directory = _run(ctx, [python, find]).split(";")
    minor = _minor(version)
    if minor not in patches:
        fail("tf_malleable supports TensorFlow %s, not %s (in %s)" %
             (", ".join(patches.keys()), version, directory))

    # The trees are copied whole because their files include each other by relative paths.
    include = directory + "/include/"
    _run(ctx, ["mkdir", "eigen"])
    _run(ctx, ["cp", "-rL", include + "Eigen", include + "unsupported", "eigen"])
    pool = "eigen/Eigen/src/ThreadPool"

    # A TensorFlow built with the patches has them in its headers, too.
    if "worker_hooks.h" not in ctx.read(pool + "/NonBlockingThreadPool.h"):
        _run(ctx, ["patch", "-p1", "--fuzz=0", "--quiet", "-d", "eigen", "-i", patches[minor]])
    _run(ctx, ["cp"] + headers + [pool])
    for entry in ctx.path(include).readdir():
        if entry.basename not in ["Eigen", "unsupported"]:
            ctx.symlink(entry, "tensorflow/" + entry.basename)

    ask = "import sysconfig; print(sysconfig.get_path('include'))"
    ctx.symlink(_run(ctx, [python, "-c", ask]), "python")
    ask = "import pybind11; print(pybind11.get_include())"
    ctx.symlink(_run(ctx, [python, "-c", ask]), "pybind11")

    ctx.file("python.sh", "#!/bin/sh\nexec '%s' \"$@\"\n" % python)
    ctx.file("version.bzl", "TENSORFLOW_VERSION = \"%s\"\nTENSORFLOW_MINOR = %s\n" %
                            (version, minor.split(".")[1]))
    ctx.symlink(build, "BUILD.bazel")

tensorflow_wheel = repository_rule(
    implementation = _tensorflow_wheel_impl,
    environ = ["PYTHON_BIN_PATH"],
    local = True,
    doc = "Finds the TensorFlow, pybind11 and Python headers of one Python.",
)
