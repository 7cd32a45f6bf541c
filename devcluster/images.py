"""The images of a cluster's components, made from the built programs and the system's static busybox."""

from __future__ import annotations

import shutil
from pathlib import Path

from devcluster.archive import Recipe, write_image
from devcluster.binaries import Built
from devcluster.components import PAUSE_IMAGE
from devcluster.errors import NotSupportedError
from devcluster.locks import file_lock
from devcluster.manifests import BUSYBOX_IMAGE, COREDNS_IMAGE, KUEUE_IMAGE, tekton_image
from devcluster.progress import Progress
from devcluster.shell import run

KUBECTL_IMAGE = "docker.io/local/kubectl:1"
"""An image with a shell and kubectl, for small tasks that read a cluster."""

TEKTON_PROGRAMS = ("controller", "webhook", "entrypoint", "nop", "workingdirinit", "sidecarlogresults")


def recipes(built: Built, busybox: Path, applets: list[str]) -> dict[str, Recipe]:
    """Returns file name → image. `busybox` must be static; `applets` are its commands."""
    shell = {"/bin/busybox": busybox}
    links = {f"/bin/{applet}": "busybox" for applet in applets if applet != "busybox"}
    made = {
        "pause": Recipe(PAUSE_IMAGE, files=shell, entrypoint=["/bin/busybox", "sleep", "2147483647"]),
        "busybox": Recipe(
            BUSYBOX_IMAGE, files=shell, links=links, directories=["tmp", "root"], command=["sh"]
        ),
        "kubectl": Recipe(
            KUBECTL_IMAGE,
            files={**shell, "/usr/bin/hyper": built.bin / "hyper"},
            links={**links, "/usr/bin/kubectl": "hyper"},
            directories=["tmp", "root"],
            command=["sh"],
        ),
        "coredns": Recipe(COREDNS_IMAGE, files={"/coredns": built.bin / "coredns"}, entrypoint=["/coredns"]),
        # Its Deployment requires non-root without a user ID, so the image must set a numeric user.
        "kueue": Recipe(
            KUEUE_IMAGE,
            files={"/manager": built.bin / "kueue"},
            directories=["tmp"],
            entrypoint=["/manager"],
            user="65532:65532",
        ),
    }
    for program in TEKTON_PROGRAMS:
        inside = f"/ko-app/{program}"
        made[f"tekton-{program}"] = Recipe(
            tekton_image(program), files={inside: built.bin / f"tekton-{program}"}, entrypoint=[inside]
        )
    return made


def ensure_images(built: Built, progress: Progress) -> dict[str, Path]:
    """Makes the missing and outdated archives. Returns file name → docker archive for all images."""
    busybox_path = shutil.which("busybox", path="/bin:/usr/bin:/usr/local/bin")
    if busybox_path is None:
        raise NotSupportedError("busybox is not installed", hint="Install Debian's package busybox-static.")
    busybox = Path(busybox_path).resolve()
    applets = run([busybox, "--list"], limit=10).stdout.split()
    directory = built.root / "images"
    directory.mkdir(parents=True, exist_ok=True)
    image_recipes = recipes(built, busybox, applets)
    archives = {name: directory / f"{name}.tar" for name in image_recipes}
    with file_lock(directory / ".lock", limit=300, what="the making of images"):
        stale = [name for name, recipe in image_recipes.items() if not _is_current(archives[name], recipe)]
        if stale:
            with progress.step(f"Making {len(stale)} images", usual="5 s") as step:
                for name in stale:
                    step.detail = name
                    write_image(image_recipes[name], archives[name])
                    archives[name].with_suffix(".key").write_text(image_recipes[name].key())
    return archives


def _is_current(archive: Path, recipe: Recipe) -> bool:
    key = archive.with_suffix(".key")
    return archive.is_file() and key.is_file() and key.read_text() == recipe.key()
