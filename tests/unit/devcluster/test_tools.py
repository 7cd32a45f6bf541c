"""Certificates, archives, running programs, and the messages for an unsuitable machine."""

from __future__ import annotations

import json
import os
import ssl
import stat
import tarfile
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from devcluster import archive, cli, pki, shell, state, system
from devcluster.archive import Recipe
from devcluster.cluster import start
from devcluster.errors import CommandFailedError, ComponentFailedError, DevclusterError, NotSupportedError
from devcluster.install import await_webhook
from devcluster.kubectl import Kubectl, await_established, wait_until
from devcluster.progress import Progress
from devcluster.spec import ClusterSpec


def test_a_server_with_our_certificate_passes_a_strict_handshake(tmp_path: Path) -> None:
    ca = pki.authority("ca")
    pki.issue(ca, "server", hosts=["localhost"]).write(tmp_path, "tls")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    client_context = ssl.create_default_context(cadata=ca.certificate_pem.decode())
    client_context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname="localhost")
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert client.getpeercert()


def test_keys_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    pki.authority("ca").write(tmp_path, "ca")
    pki.write_service_account_key(tmp_path)
    for name in ("ca.key", "sa.key"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_the_kubeconfig_names_no_file() -> None:
    ca = pki.authority("ca")
    client = pki.issue(ca, "admin", organizations=["system:masters"])
    text = pki.kubeconfig(name="a", server="https://10.240.1.2:6443", ca=ca, client=client)
    parsed = yaml.safe_load(text)
    assert parsed["clusters"][0]["cluster"]["server"] == "https://10.240.1.2:6443"
    assert set(parsed["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}


def test_an_image_is_written_as_docker_reads_it(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    recipe = Recipe(
        "docker.io/local/a:1",
        files={"/bin/program": program},
        links={"/bin/other": "program"},
        directories=["tmp"],
        entrypoint=["/bin/program"],
        user="65532:65532",
    )
    target = tmp_path / "a.tar"
    archive.write_image(recipe, target)
    assert archive.tags_of(target) == ["docker.io/local/a:1"]
    with tarfile.open(target) as outer:
        (manifest,) = json.load(outer.extractfile("manifest.json"))  # type: ignore[arg-type]
        config = json.load(outer.extractfile(manifest["Config"]))  # type: ignore[arg-type]
        assert config["config"]["Entrypoint"] == ["/bin/program"]
        assert config["config"]["User"] == "65532:65532"
        assert config["rootfs"]["diff_ids"] == [f"sha256:{manifest['Layers'][0].removesuffix('.tar')}"]
        with tarfile.open(fileobj=outer.extractfile(manifest["Layers"][0])) as layer:
            assert layer.getmember("bin/program").mode == 0o755
            assert layer.getmember("bin/program").uid == 0
            assert layer.getmember("bin/other").linkname == "program"
            assert layer.getmember("tmp").mode == 0o1777
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "program"]


def test_an_image_is_stale_when_a_file_of_it_changes(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("one")
    recipe = Recipe("a:1", files={"/program": program})
    before = recipe.key()
    assert recipe.key() == before
    program.write_text("three")
    assert recipe.key() != before


def test_a_failing_program_is_reported_with_its_last_output() -> None:
    with pytest.raises(CommandFailedError) as caught:
        shell.run(["sh", "-c", "echo the reason >&2; exit 3"], limit=10)
    assert "returned 3" in str(caught.value)
    assert "the reason" in str(caught.value)


def test_what_programs_write_is_readable_by_others_whatever_the_users_umask(tmp_path: Path) -> None:
    """It is copied into images, whose users are not root."""
    before = os.umask(0o077)
    try:
        shell.run(["touch", tmp_path / "run"], limit=10)
        shell.stream(["touch", tmp_path / "stream"], on_line=lambda _: None, limit=10)
    finally:
        os.umask(before)
    for name in ("run", "stream"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o644


def test_a_program_that_takes_too_long_is_ended() -> None:
    with pytest.raises(CommandFailedError, match="did not end within"):
        shell.run(["sleep", "60"], limit=0.05)


def test_streamed_output_comes_line_by_line_and_a_failure_keeps_it() -> None:
    lines: list[str] = []
    shell.stream(["sh", "-c", "echo one; echo two >&2"], on_line=lines.append, limit=10)
    assert sorted(lines) == ["one", "two"]
    with pytest.raises(CommandFailedError, match="why"):
        shell.stream(["sh", "-c", "echo why; exit 1"], on_line=lines.append, limit=10)


def test_a_wait_ends_at_its_limit_and_shows_the_evidence() -> None:
    with pytest.raises(DevclusterError, match="it ready: not within 0 s") as caught:
        wait_until("it ready", lambda: False, limit=0, every=0, evidence=lambda: "still starting")
    assert "still starting" in str(caught.value)


def test_a_wait_goes_on_after_an_error_and_shows_the_last_one() -> None:
    def ready() -> bool:
        raise CommandFailedError("`kubectl create` did not end within 30 s")

    with pytest.raises(DevclusterError, match=r"it ready: not within 0 s\n`kubectl create` did not end"):
        wait_until("it ready", ready, limit=0, every=0)
    answers = iter([CommandFailedError("busy"), False, True])

    def later() -> bool:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    wait_until("it ready", later, limit=3600, every=0)
    assert not list(answers)


KUBECTL = """\
#!/bin/sh
echo >> {here}/$1
case $1 in
get) printf 'jobs.a True true false\\nold.b True false\\n' ;;
api-resources) echo pods; test $(wc -l < {here}/$1) -lt 3 || echo jobs.a; exit 1 ;;
esac
"""


def test_definitions_are_waited_for_until_the_discovery_has_them(tmp_path: Path) -> None:
    """One without a served version never is there; an aggregated API that is down does not matter."""
    program = tmp_path / "kubectl"
    program.write_text(KUBECTL.format(here=tmp_path))
    program.chmod(0o755)
    await_established([str(program)], limit=30)
    assert (tmp_path / "api-resources").read_text().count("\n") == 3


def test_what_a_webhook_answers_is_shown_when_its_part_does_not_accept_objects(tmp_path: Path) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\necho 'no route to host: https://kueue-webhook' >&2\nexit 1\n")
    kubectl.chmod(0o755)
    with pytest.raises(DevclusterError, match="no route to host: https://kueue-webhook"):
        await_webhook(Kubectl([str(kubectl)], tmp_path / "config"), "kueue", limit=0)


def test_a_wait_ends_early_when_something_died() -> None:
    def died() -> None:
        raise ComponentFailedError("etcd", "it ended by itself")

    with pytest.raises(ComponentFailedError, match="etcd"):
        wait_until("it ready", lambda: False, limit=3600, meanwhile=died)


def test_only_missing_packages_are_asked_for(tmp_path: Path) -> None:
    present = tmp_path / "plugin"
    present.touch()
    wanted = {
        "sh": "dash",
        str(present): "plugins",
        "no-such-program-here": "missing",
        "/no/such/file": "absent",
    }
    assert system.missing_packages(wanted) == ["absent", "missing"]


def test_without_root_the_other_providers_are_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "is_root", lambda: False)
    with pytest.raises(NotSupportedError, match="--provider kind"):
        system.require_native()
    with pytest.raises(NotSupportedError, match="no-such-package"):
        system.ensure_packages([{"no-such-program-here": "no-such-package"}], Progress(quiet=True))


def test_elsewhere_than_linux_the_other_providers_are_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system.platform, "system", lambda: "Darwin")
    with pytest.raises(NotSupportedError, match="this is Darwin"):
        system.require_native()


def test_a_provider_that_cannot_start_leaves_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURNOS_STATE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    kinds = [
        ClusterSpec(name="a", provider="kind"),
        ClusterSpec(name="b", provider="existing", kubeconfig=str(tmp_path / "absent")),
    ]
    for spec in kinds:
        with pytest.raises(DevclusterError, match=r"not installed|no kubeconfig"):
            start(spec, progress=Progress(quiet=True))
    assert state.names() == []


def test_a_cluster_that_is_not_there_can_be_taken_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURNOS_STATE", str(tmp_path))
    result = CliRunner().invoke(cli.app, ["down", "absent"])
    assert result.exit_code == 0
    assert "no cluster absent" in result.output


def test_the_limit_of_inotify_instances_is_raised_and_never_lowered(tmp_path: Path) -> None:
    limit = tmp_path / "max_user_instances"
    for before, after in ((128, system.ENOUGH_INOTIFY_INSTANCES), (8192, 8192)):
        limit.write_text(f"{before}\n")
        system.make_room_for_watches(limit)
        assert int(limit.read_text()) == after
