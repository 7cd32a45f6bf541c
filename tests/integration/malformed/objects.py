"""Objects of a CRD that are odd in every way its schema leaves room for, and some that it does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fournos.engine.api.crd import PRESERVE

Json = Any


def nested(depth: int) -> Json:
    value: Json = "x"
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


TEXTS = (
    *("", " ", "\x00", "\x1b]52;c;ZXZpbA==\x07", "a\nb", "\u202eb", "²", "٣", "é" * 300, "𝕏", "null", "~"),
    *("9" * 30, "9" * 5000, "9" * 100_000, "-1", "1e999", "0x10", "1_000", "NaN", ".", "..", "../..", "/"),
    *("a/b/c", "A.B", "-", "a" * 63, "a" * 254, "{{.}}", "$(x)", "${x}", "%s%n", "1h1h", "99999999h", "7d"),
    *("2030-01-01T00:00:00Z", "kueue.x-k8s.io/multikueue", "FournosJob", "default", "true"),
)
NUMBERS = (0, 1, -1, 2, 7, 100, 2**31 - 1, 2**31, -(2**31) - 1, 2**53, 2**63 - 1, -(2**63), 1.5, 1e300)
JUNK = st.recursive(
    st.none() | st.booleans() | st.sampled_from(NUMBERS) | st.sampled_from(TEXTS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(TEXTS[:20]), inner, max_size=3)
    ),
    max_leaves=6,
)
DEEP = st.sampled_from([nested(depth) for depth in (40, 260, 600, 1100, 3000)])
ANNOTATIONS = (
    *("fournos.dev/requests", "fournos.dev/held", "fournos.dev/attempt"),
    *("kueue.x-k8s.io/prebuilt-workload-name", "kueue.x-k8s.io/retriable-in-group", "fournos.dev/discover"),
    *("workload.codeflare.dev.appwrapper/terminalExitCodes", "x"),
    *("workload.codeflare.dev.appwrapper/admissionGracePeriodDuration",),
    *("workload.codeflare.dev.appwrapper/retryLimit", "workload.codeflare.dev.appwrapper/exclude"),
)
LABELS = (
    *("kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class", "kueue.x-k8s.io/max-exec-time-seconds"),
    *("fournos.dev/cluster-lock", "kueue.x-k8s.io/prebuilt-workload-name", "fournos.dev/multikueue-worker"),
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "annotations": st.dictionaries(st.sampled_from(ANNOTATIONS), st.sampled_from(TEXTS), max_size=3),
        "labels": st.dictionaries(
            st.sampled_from(LABELS), st.sampled_from(["a", "9" * 63, "0", "none", "A.b_c"]), max_size=3
        ),
        "ownerReferences": st.just(
            [{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "u", "controller": True}]
        ),
    },
)


def values(schema: Mapping[str, Any]) -> st.SearchStrategy[Json]:
    """Mostly what the schema describes, filled with what is odd."""
    return st.one_of(*[_fitting(schema)] * 9, JUNK)


def _fitting(schema: Mapping[str, Any]) -> st.SearchStrategy[Json]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object" if schema.get("properties"):
            inner = {name: values(child) for name, child in schema["properties"].items()}
            required = {name: inner.pop(name) for name in schema.get("required") or ()}
            return st.fixed_dictionaries(required, optional=inner)
        case "object" if isinstance(schema.get("additionalProperties"), Mapping):
            return st.dictionaries(
                st.sampled_from(TEXTS[:20]) | st.just("a"), values(schema["additionalProperties"]), max_size=3
            )
        case "array":
            return st.lists(values(schema["items"]), max_size=3)
        case "string":
            return st.sampled_from(TEXTS)
        case "integer" | "number":
            return st.sampled_from(NUMBERS)
        case "boolean":
            return st.booleans()
    if schema.get(PRESERVE):
        return JUNK | DEEP
    return st.sampled_from(TEXTS) | st.sampled_from(NUMBERS)  # int-or-string


def odd(crd: Mapping[str, Any], sound: Mapping[str, Any], malformed: list[Json], count: int) -> list[Json]:
    """`count` objects: half of them sound ones with one or two fields replaced, as attackers do it."""
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    fields = {name: values(child) for name, child in spec["properties"].items()}
    some = st.sets(st.sampled_from(sorted(fields)), min_size=1, max_size=2).flatmap(
        lambda names: st.fixed_dictionaries({name: fields[name] for name in names})
    )
    spoiled = some.map(lambda changes: {**sound, **changes})
    found: list[Json] = []

    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(METADATA, st.one_of(spoiled, spoiled, st.just(dict(sound)), values(spec)))
    def collect(metadata: Json, body: Json) -> None:
        found.append({"metadata": metadata, "spec": body})

    collect()
    return [*({"metadata": {}, "spec": spec_} for spec_ in malformed), *found][:count]
