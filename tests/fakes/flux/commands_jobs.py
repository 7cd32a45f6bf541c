"""Commands about jobs: submit, run, batch, jobs, job, queue."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from .client import environment, follow, formatted, rpc, show
from .options import Parsed, die, parse, table

_SUBMIT = """N,nodes= n,ntasks= c,cores-per-task= g,gpus-per-task= t,time-limit= o,setopt= S,setattr=
    v,verbose quiet watch wait w flags= output= error= input= env= cwd= urgency= job-name= label-io l
    exclusive x dry-run u,unbuffered requires= queue= q= bank= B= begin-time= dependency= env-remove=
    env-file= tasks-per-node= tasks-per-core= cores= cc= bcc= wait-event= conf= rlimit= taskmap= signal=
    progress jps log= log-stderr="""
_OPTIONS = {
    "submit": table(_SUBMIT),
    "run": table(_SUBMIT),
    "batch": {
        name: option
        for name, option in table(f"{_SUBMIT} broker-opts= B= nslots= dump= wrap").items()
        if option[0] not in ("verbose", "watch")
    },
    "jobs": table(
        "a all A n,no-header o,format= f,filter= c,count= u,user= i,include= R,recursive since= stats"
    ),
}


def _spec(command: str, parsed: Parsed, words: list[str]) -> dict[str, Any]:
    nodes = parsed.number(command, "nodes", 0)
    tasks = parsed.number(command, "nslots" if "nslots" in parsed else "ntasks", max(1, nodes))
    for option in parsed.all("env"):
        if "=" not in option:
            die(command, f"argument --env: {option!r} is not NAME=VALUE", 2)
    flags = [flag for one in parsed.all("flags") for flag in one.split(",")]
    if unknown := set(flags) - {"debug", "waitable", "signed", "novalidate"}:
        die(command, f"unknown flag {sorted(unknown)[0]!r}")
    if nodes > tasks:
        die(command, "node count must not be greater than task count")
    env = environment() | dict(option.split("=", 1) for option in parsed.all("env"))
    for option in parsed.all("setopt"):
        if option.startswith("env."):
            name, _, value = option.removeprefix("env.").partition("=")
            env[name] = value
    return {
        "argv": words,
        "env": env,
        "cwd": parsed.get("cwd") or str(Path.cwd()),
        "ntasks": tasks,
        "nnodes": nodes,
        "cores": parsed.number(command, "cores-per-task", 1),
        "name": parsed.get("job-name") or Path(words[0]).name,
        "waitable": "waitable" in flags,
        "output": parsed.get("output"),
        "error": parsed.get("error"),
        "batch": command == "batch",
    }


def _result(command: str, id_: str, last: dict[str, Any]) -> int:
    if last["exception"]:
        print(f"flux-job: {id_}: exception: {last['exception']}", file=sys.stderr)
    elif last["code"]:
        print(f"flux-job: task(s) exited with exit code {last['code']}", file=sys.stderr)
    return int(last["code"])


def submit(words: list[str], command: str = "submit") -> int:
    parsed = parse(command, words, _OPTIONS[command])
    if not parsed.rest:
        die(command, "job command and arguments are missing")
    label = "label-io" in parsed or "l" in parsed
    verbose = len(parsed.all("verbose"))
    spec = _spec(command, parsed, parsed.rest)
    id_ = rpc(command, "submit", spec=spec)["id"]
    if command == "submit" and "quiet" not in parsed:
        print(id_, flush=True)
    if verbose > 1:
        print(f"{id_}: submit", file=sys.stderr, flush=True)
    attached = command == "run" or "watch" in parsed
    if not attached and "wait" not in parsed and "w" not in parsed:
        return 0
    mute = not attached or bool(spec["output"])
    return _result(command, id_, follow(command, "attach", id=id_, label=label, mute=mute))


def run(words: list[str]) -> int:
    return submit(words, "run")


def batch(words: list[str]) -> int:
    parsed = parse("batch", words, _OPTIONS["batch"])
    if not parsed.rest and "wrap" not in parsed:
        die("batch", "Script required when not using --wrap", 2)
    script = parsed.rest[0]
    if not Path(script).is_file():
        die("batch", f"{script}: No such file or directory")
    text = Path(script).read_text()
    if not text.startswith("#!"):
        die("batch", f"{script} does not appear to start with '#!'")
    # The script is what it is now, whatever happens to the file later.
    with tempfile.NamedTemporaryFile("w", prefix="flux-batch-", delete=False) as kept:
        kept.write(text)
    Path(kept.name).chmod(0o755)
    spec = _spec("batch", parsed, [kept.name, *parsed.rest[1:]])
    spec["name"] = parsed.get("job-name") or Path(script).name
    spec["output"] = spec["output"] or "flux-{{id}}.out"
    if not Path(spec["output"]).is_absolute():
        spec["output"] = f"{spec['cwd']}/{spec['output']}"
    print(rpc("batch", "submit", spec=spec)["id"], flush=True)
    return 0


_STATES = {"pending": {"sched"}, "running": {"run"}, "active": {"sched", "run"}}


def _filter(name: str) -> set[str]:
    """The states behind a name, virtual ones too."""
    known = {"sched", "run", "inactive", "completed", "failed", "canceled", "timeout", "depend", "cleanup"}
    if name not in known | set(_STATES):
        die("jobs", f"Invalid filter specified: {name}")
    return _STATES.get(name, {name})


def jobs(words: list[str]) -> int:
    parsed = parse("jobs", words, _OPTIONS["jobs"])
    everything = "all" in parsed or "a" in parsed or "A" in parsed or "filter" in parsed
    rows = rpc("jobs", "jobs", all=everything)["jobs"]
    if "filter" in parsed:
        wanted = {word for name in parsed.get("filter").lower().split(",") for word in _filter(name)}
        rows = [row for row in rows if wanted & {row["state"].lower(), row["result"].lower()}]
    if parsed.rest:
        rows = [row for row in rows if row["id"] in parsed.rest]
    if parsed.get("format").startswith("{"):
        formatted("jobs", rows, parsed.get("format"))
        return 0
    titles = "JOBID:id USER:username NAME:name ST:status_abbrev NTASKS:ntasks NNODES:nnodes TIME:runtime"
    columns = [(title, key) for title, key in (word.split(":") for word in f"{titles} INFO:nodelist".split())]
    show(rows, columns, header="no-header" not in parsed)
    return 0


def job(words: list[str]) -> int:
    if not words:
        die("job", "missing subcommand", 2)
    what, rest = words[0], words[1:]
    if what == "wait":
        parsed = parse("job wait", rest, table("a,all v,verbose"))
        if not parsed.rest and "all" not in parsed:
            die("job wait", "a job id, or --all", 2)
        found = rpc("job", "wait", id="" if "all" in parsed else parsed.rest[0])["jobs"]
        for one in found:
            if one["code"]:
                print(
                    f"flux-job: {one['id']}: {one['exception'] or 'task(s) exited with exit code'} "
                    f"{one['code']}",
                    file=sys.stderr,
                )
        return int(any(one["code"] for one in found))
    if what == "list":
        parsed = parse("job list", rest, table("c,count= s,states= u,user= a,all-user A,all"))
        states = {state for name in parsed.get("states", "active").split(",") for state in _filter(name)}
        for row in rpc("job", "jobs", all=True)["jobs"]:
            if row["state"].lower() in states:
                print(json.dumps({"id": row["id"], "ranks": row["ranks"], "name": row["name"]}))
        return 0
    die("job", f"Unknown command: {what}", 2)
    return 2


_QUEUE = frozenset({"idle", "drain"})


def queue(words: list[str]) -> int:
    if not words or words[0] not in _QUEUE:
        die("queue", f"Unknown command: {words[0] if words else ''}", 2)
    known = table("t,timeout= q,quiet v,verbose a,all nocheckpoint m,message= n,no-header o,format=")
    parse("queue", words[1:], known)
    rpc("queue", "queue", what=words[0])
    return 0
