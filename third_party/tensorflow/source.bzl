"""TensorFlow's sources with our patches, as a repository."""

def _tensorflow_source_impl(ctx):
    # The same tool as by hand. It reads the patches and our C++, so a change of these
    # has to fetch anew: `bazel sync --only=tensorflow_source`.
    tool = ctx.path(Label("//tools:apply_patches.py"))
    for imported in ["patch_series.py", "releases.py", "source_facts.py"]:
        ctx.path(Label("//tools:" + imported))
    ctx.download_and_extract(
        url = ctx.attr.urls,
        sha256 = ctx.attr.sha256,
        stripPrefix = ctx.attr.strip_prefix,
    )
    done = ctx.execute(["python3", str(tool), "."])
    if done.return_code != 0:
        fail(done.stderr.strip())

tensorflow_source = repository_rule(
    implementation = _tensorflow_source_impl,
    attrs = {
        "sha256": attr.string(mandatory = True),
        "strip_prefix": attr.string(mandatory = True),
        "urls": attr.string_list(mandatory = True),
    },
    doc = "Downloads an archive of TensorFlow's sources and applies patches/ to them.",
)
