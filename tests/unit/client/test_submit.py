"""Submitting: what is accepted, how often it happens, and what a key promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fournos.api.fournosjob import FournosJob, FournosJobSpec
from fournos.api.kinds import FOURNOS_JOB
from fournos.client import AsyncClient, ConflictError, KeyConflict, ManifestError, UnreachableError
from fournos.client.job_methods import _TRIES
from fournos.client.submission import MATRIX_LABEL
from fournos.engine.kube.errors import ConnectionLostError, KubeError
from fournos.engine.kube.resource import Key
from tests.unit.client.world import NS, SPEC, Api

MANIFEST: dict[str, Any] = {
    "apiVersion": "fournos.dev/v1",
    "kind": "FournosJob",
    "metadata": {"generateName": "nightly-"},
    "spec": SPEC,
}


async def test_every_form_of_a_job_makes_the_same_spec(client: AsyncClient, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(MANIFEST))
    forms = [
        SPEC,
        MANIFEST,
        file,
        str(file),
        FournosJobSpec(**SPEC),
        FournosJob.model_validate({"spec": SPEC}),
    ]
    jobs = [await client.submit(form) for form in forms]
    assert [job.raw["spec"] for job in jobs] == [{**SPEC, "owner": "perf"}] * len(forms)
    assert {job.namespace for job in jobs} == {NS}
    prefixes = ["fournos-full", *["nightly"] * 3, *["fournos-full"] * 2]
    assert [job.name.rpartition("-")[0] for job in jobs] == prefixes
    assert [one.name for one in await client.jobs()] == sorted(job.name for job in jobs)


async def test_what_would_be_refused_is_not_sent(client: AsyncClient, api: Api, tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as refusal:
        await client.submit({**SPEC, "clusterr": "x", "hardware": {"gpuType": "a100", "gpuCount": 0}})
    assert [violation.field for violation in refusal.value.violations] == [
        "spec.hardware.gpuCount",
        "spec.clusterr",
    ]
    assert "did you mean cluster?" in refusal.value.message
    with pytest.raises(ManifestError, match="cannot read"):
        await client.submit(tmp_path / "none.yaml")
    with pytest.raises(ManifestError, match="the client says bench"):
        await client.submit({**MANIFEST, "metadata": {"namespace": "other"}})
    assert api.writes == []


async def test_a_key_makes_one_job_however_often_it_is_submitted(client: AsyncClient, api: Api) -> None:
    first = await client.submit(SPEC, key="run 42")
    again = await client.submit(SPEC, key="run 42")
    assert (first.uid, first.name) == (again.uid, again.name)
    assert first.name.startswith("perf-run-42-")
    # The operator and the resolver change the stored object; the submission is still the same.
    api.server.patch(FOURNOS_JOB, Key(NS, first.name), {"spec": {"secretRefs": ["a"], "exclusive": True}})
    assert (await client.submit(SPEC, key="run 42")).uid == first.uid
    assert (await client.submit(SPEC, key="run 42", owner="other")).uid != first.uid
    assert (await client.submit(SPEC, key="run-42")).uid != first.uid


async def test_a_key_with_another_spec_is_a_conflict(client: AsyncClient, api: Api) -> None:
    first = await client.submit(SPEC, key="k")
    with pytest.raises(KeyConflict, match=r"another spec \(differs now: cluster\)"):
        await client.submit({**SPEC, "cluster": "cluster-2"}, key="k")
    with pytest.raises(ManifestError, match="gets its name from it"):
        await client.submit(SPEC, key="k", name="mine")
    api.server.patch(FOURNOS_JOB, Key(NS, first.name), {"metadata": {"finalizers": ["a/b"]}})
    await first.delete()
    with pytest.raises(KeyConflict, match="is being deleted"):
        await client.submit(SPEC, key="k")
    api.server.patch(
        FOURNOS_JOB, Key(NS, first.name), {"metadata": {"annotations": {"fournos.dev/submit-key": None}}}
    )
    with pytest.raises(KeyConflict, match="not submitted with the key"):
        await client.submit(SPEC, key="k")


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_lost_answer_is_repeated_only_with_a_key(
    moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_pause(_: float) -> None: ...

    monkeypatch.setattr("asyncio.sleep", no_pause)

    def lost(number: int) -> None:
        if number == 1:
            raise ConnectionLostError("reset")

    api = Api(**{moment: lost})
    async with AsyncClient(api=api, namespace=NS) as client:
        job = await client.submit(SPEC, key="k")
        assert [one.uid for one in await client.jobs()] == [job.uid]
    api = Api(**{moment: lost})
    async with AsyncClient(api=api, namespace=NS) as client:
        with pytest.raises(UnreachableError, match="reset"):
            await client.submit(SPEC)
        assert len(await client.jobs()) == (1 if moment == "after" else 0)


async def test_a_submission_with_a_key_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_pause(_: float) -> None: ...

    tries = []

    def lost(number: int) -> None:
        tries.append(number)
        raise ConnectionLostError("reset")

    monkeypatch.setattr("asyncio.sleep", no_pause)
    async with AsyncClient(api=Api(before=lost), namespace=NS) as client:
        with pytest.raises(UnreachableError):
            await client.submit(SPEC, key="k")
    assert len(tries) == _TRIES


async def test_a_name_that_is_taken(client: AsyncClient) -> None:
    await client.submit(SPEC, name="one")
    with pytest.raises(ConflictError) as refusal:
        await client.submit(SPEC, name="one")
    assert isinstance(refusal.value.cause, KubeError)
    assert "key" in refusal.value.fix


# --- matrices ----------------------------------------------------------------------------------------


async def test_a_matrix_makes_a_job_of_each_combination(client: AsyncClient) -> None:
    axes = {"hardware.gpuCount": [1, 2], "env.MODEL": ["a", "b", "c"]}
    jobs = await client.submit_matrix({**MANIFEST, "metadata": {"name": "sweep"}}, axes, label="sweep")
    found = [(job.spec.hardware and job.spec.hardware.gpu_count, job.spec.env["MODEL"]) for job in jobs]
    assert found == [(1, "a"), (1, "b"), (1, "c"), (2, "a"), (2, "b"), (2, "c")]
    assert {job.name[:6] for job in jobs} == {"sweep-"}
    listed = await client.jobs(selector=f"{MATRIX_LABEL}=sweep")
    assert {job.uid for job in listed} == {job.uid for job in jobs}


async def test_a_matrix_with_a_key_may_be_repeated(client: AsyncClient) -> None:
    axes = {"hardware.gpuCount": [1, 2]}
    first = await client.submit_matrix(SPEC, axes, key="sweep", label="a")
    again = await client.submit_matrix(SPEC, axes, key="sweep", label="a")
    assert [job.uid for job in first] == [job.uid for job in again]
    assert len(await client.jobs()) == 2


async def test_nothing_of_a_matrix_is_sent_when_one_would_be_refused(client: AsyncClient, api: Api) -> None:
    for axes in ({"hardware.gpuCount": [1, 0]}, {"hardware.gpuCount": []}, {"": [1]}, {"env": "text"}):
        with pytest.raises(ManifestError):
            await client.submit_matrix(SPEC, axes)
    assert api.writes == []
