"""What a MiniCluster may have without the right to create pods: a list of what is allowed."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from dev import resources
from fournos.api.minicluster import MiniClusterSpec, PodSpec
from fournos.api.minicluster_container import Container, ContainerVolume
from fournos.api.minicluster_flux import FluxContainer, FluxSpec
from fournos.api.pod_rights import OWN_FIELDS, minicluster_reach
from fournos.engine.api.crd import Model

MODELS: dict[str, tuple[type[Model], ...]] = {
    "spec": (MiniClusterSpec,),
    "pod": (PodSpec,),
    "flux": (FluxSpec,),
    "container": (Container, FluxContainer),
    "volume": (ContainerVolume,),
}


def test_the_policy_has_the_same_lists() -> None:
    policy = resources.load("deploy/minicluster/policies.yaml")[0]
    variables = {one["name"]: one["expression"] for one in policy["spec"]["variables"]}
    for name, fields in OWN_FIELDS.items():
        assert set(ast.literal_eval(variables[f"{name}Fields"])) == fields, name


@pytest.mark.parametrize("kind", MODELS)
def test_the_list_names_fields_that_are_there(kind: str) -> None:
    known = {str(field.alias) for model in MODELS[kind] for field in model.model_fields.values()}
    assert OWN_FIELDS[kind] <= known


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("value", ["x", True, 1, ["x"], {"x": "y"}], ids=str)
def test_every_other_field_takes_the_right(kind: str, value: Any) -> None:
    """A field of the future, too."""
    known = {str(field.alias) for model in MODELS[kind] for field in model.model_fields.values()}
    for name in {*known, "ofTheFuture"} - OWN_FIELDS[kind]:
        part = {name: value}
        spec = {
            "spec": part,
            "pod": {"pod": part},
            "flux": {"flux": part},
            "container": {"containers": [part]},
            "volume": {"services": [{"volumes": {"v": part}}]},
        }[kind]
        (found,) = minicluster_reach(spec)
        assert found.endswith(name)


@pytest.mark.parametrize("value", [False, "", [], {}, None], ids=str)
def test_what_is_not_set_takes_none(value: Any) -> None:
    part = {"hostPID": value, "labels": value, "imagePullSecret": value}
    assert not minicluster_reach({"pod": part, "containers": [part], "resourceClaims": value})
