# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The DaemonSet of tiers starts tfm tier serve with options that it has, and needs no rights."""

from __future__ import annotations

import click
import yaml

from tests.support import ROOT
from tf_malleable.cli.tier.serve import serve
from tf_malleable.tier import settings

MANIFEST = ROOT / "deploy" / "tier" / "daemonset.yaml"
SERVICE, DAEMONS = yaml.safe_load_all(MANIFEST.read_text())
POD = DAEMONS["spec"]["template"]
CONTAINER = POD["spec"]["containers"][0]


def test_the_options_are_those_of_tfm():
    assert CONTAINER["command"] == ["tfm", "tier", "serve"]
    words = [word.replace("$(POD_IP)", "10.0.0.1") for word in CONTAINER["args"]]
    with serve.make_context("serve", words) as context:
        assert isinstance(context, click.Context)
        given = context.params
    assert settings.listening_address(given["listen"]).port == 7700
    nodes, name = settings.peer_list(given["peers"])
    assert (nodes, name.host, name.port) == ((), SERVICE["metadata"]["name"], 7700)


def test_the_name_has_the_addresses_of_all_nodes():
    assert SERVICE["spec"]["clusterIP"] == "None"
    assert SERVICE["spec"]["publishNotReadyAddresses"] is True
    assert SERVICE["spec"]["selector"] == POD["metadata"]["labels"]
    assert DAEMONS["spec"]["selector"]["matchLabels"] == POD["metadata"]["labels"]


def test_the_secret_is_one_and_the_rights_are_none():
    names = {each["name"] for each in CONTAINER["env"]}
    assert settings.SECRET in names
    security = CONTAINER["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["allowPrivilegeEscalation"] is False
    assert POD["spec"]["automountServiceAccountToken"] is False
    data = next(each for each in CONTAINER["volumeMounts"] if each["name"] == "data")
    assert data["readOnly"] is True
