"""Every external program that devcluster, dev and the scripts start: all of them, and the package of each.

Collected from the sources: the arguments of calls that start processes, and the commands of shell scripts.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

BASE = {
    "sh": "dash",
    "bash": "bash",
    "awk": "mawk",
    "apt-get": "apt",
    "mount": "mount",
    "umount": "mount",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "dirname": "coreutils",
    "env": "coreutils",
    "id": "coreutils",
    "mkdir": "coreutils",
    "mktemp": "coreutils",
    "realpath": "coreutils",
    "rm": "coreutils",
    "sleep": "coreutils",
    "tail": "coreutils",
    "touch": "coreutils",
    "make": "make",
    "python3": "python3",
}
"""Program → package of Debian's smallest system, or what the README asks for: Python and make."""

CHOSEN = {
    "kind": "the provider `kind`",
    "kubectl": "the provider `existing`, when nothing was built here",
    "npm": "`python -m dev.vendor`, to take newer scripts into the page",
}
"""Started only where a person chose what needs it; their absence is an error message of its own."""

COMPUTED = {
    "sys.executable": "the Python that runs this",
    "go": "system.ensure_go",
    "program": "system.go_version, a Go",
    "busybox": "images.ensure_images, of busybox-static",
    "built.kubectl": "binaries",
    "layout.hyper": "binaries",
    "str(layout.binaries / 'kueue')": "binaries",
    "self._programs / program": "postgres.programs, of postgresql",
    "self.words(*arguments)": "Kubectl",
    "self.program": "dev/engine.py, Docker or Podman where one answers",
    "cluster.kubectl_words()": "Kubectl",
    "cluster.Cluster(state.require(name)).kubectl_words()": "Kubectl",
    "kubectl_program()": "existing",
    "self.record.commands[component]": "what the component was started with first",
    "argv of run": "shell, whose callers are looked at",
    "argv of stream": "shell, whose callers are looked at",
    "argv of _launch": "namespaces, whose callers are looked at",
    "argv of start": "namespaces, whose callers are looked at",
    "kubectl of await_established": "Kubectl",
    "inside of switch_on": "namespaces.enter",
    "command of start": "bench, the operator by this Python",
    "words of _said": "bench upstream: go, git, or the interpreter that a person names",
    "command of around": "what a person typed",
    "command of run": "lanes, pytest by this Python",
}
"""First words that no table knows → where they come from."""

_STARTERS = {
    "run": 0,
    "stream": 0,
    "_launch": 2,
    "namespaces.start": 2,
    "subprocess.run": 0,
    "subprocess.Popen": 0,
    "subprocess.call": 0,
    "subprocess.check_call": 0,
    "subprocess.check_output": 0,
    "os.execvp": 1,
    "os.execve": 1,
    "os.system": 0,
}
"""Function → the place of the started words among its arguments."""
_ELSEWHERE = {name: place for name, place in _STARTERS.items() if name not in ("run", "stream")}
"""Of a module that does not have devcluster's own `run` and `stream`."""
_Scopes = tuple[ast.FunctionDef, ...]
_PREFIXES = {"nsenter", "unshare", "env", "inside of switch_on"}
"""What starts the next one of its words."""
_OPTION_VALUES = {"private"}
_WORD = re.compile(r"[a-z][a-z0-9.-]*")


@dataclass(frozen=True)
class Start:
    """A program, or an expression that names one, and where it is started."""

    program: str
    module: str
    line: int


def started_by_python(*folders: str) -> list[Start]:
    modules = {
        path: ast.parse(path.read_text()) for folder in folders for path in (ROOT / folder).glob("*.py")
    }
    functions = {
        node.name: node
        for tree in modules.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }
    found = []
    for path, tree in modules.items():
        known = _STARTERS if "from devcluster.shell import" in ast.unparse(tree) else _ELSEWHERE
        for scopes, call in _calls(tree, ()):
            name = ast.unparse(call.func)
            if name in known and len(call.args) > known[name]:
                for program in _Words(scopes, functions).programs(call.args[known[name]]):
                    found.append(Start(program, str(path.relative_to(ROOT)), call.lineno))
    return found


def _calls(node: ast.AST, scopes: _Scopes) -> Iterator[tuple[_Scopes, ast.Call]]:
    """Every call, with the functions that it is in, the innermost first."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield scopes, child
        yield from _calls(child, (child, *scopes) if isinstance(child, ast.FunctionDef) else scopes)


class _Words:
    """Finds the programs in an expression for the arguments of a process."""

    def __init__(self, scopes: _Scopes, functions: dict[str, ast.FunctionDef]) -> None:
        self.scopes = scopes
        self.functions = functions

    def programs(self, words: ast.expr) -> list[str]:
        match words:
            case ast.List(elts=elements):
                return self._list(elements)
            case ast.BinOp(left=left, right=right):
                found = self.programs(left)
                return found + (self.programs(right) if _PREFIXES & set(found) else [])
            case ast.ListComp(elt=ast.Call(args=[_]), generators=[ast.comprehension(iter=source)]):
                return self.programs(source)
            case ast.Subscript() | ast.Attribute():
                return [ast.unparse(words)]
            case ast.Call(func=ast.Name(id="list"), args=[inner]):
                return self.programs(inner)
            case ast.Call(func=called):
                name = ast.unparse(called).rpartition(".")[2]
                if ast.unparse(words) in COMPUTED or name not in self.functions:
                    return [ast.unparse(words)]
                return self._returned(self.functions[name])
            case ast.Name(id=name):
                return self._assigned(name)
        return [ast.unparse(words)]

    def _list(self, elements: list[ast.expr]) -> list[str]:
        found: list[str] = []
        for element in elements:
            if found and found[-1] not in _PREFIXES:
                break
            match element:
                case ast.Starred(value=value):
                    found += self.programs(value)
                case ast.Constant(value=str(word)):
                    if not found or (_WORD.fullmatch(word) and word not in _OPTION_VALUES):
                        found.append(word)
                case ast.Attribute():
                    found.append(ast.unparse(element))
                case _ if not found:
                    found.append(ast.unparse(element))
        return found

    def _assigned(self, name: str) -> list[str]:
        found: list[str] = []
        for node in (node for scope in self.scopes for node in ast.walk(scope)):
            match node:
                case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                    found += self.programs(value)
                case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value) if target == name:
                    found += self.programs(value)
                case ast.AugAssign(target=ast.Name(id=target), value=ast.List() as value) if (
                    target == name and _PREFIXES & set(found)
                ):
                    found += [word for word in self._constants(value) if word not in _OPTION_VALUES]
        return found or [f"{name} of {self.scopes[-1].name}"]

    def _constants(self, words: ast.List) -> list[str]:
        values = [element.value for element in words.elts if isinstance(element, ast.Constant)]
        return [value for value in values if isinstance(value, str) and _WORD.fullmatch(value)]

    def _returned(self, function: ast.FunctionDef) -> list[str]:
        inner = _Words((function,), self.functions)
        returns = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value]
        return [program for value in returns for program in inner.programs(value)]


# --- shell -----------------------------------------------------------------------------------------

_BUILTINS = {
    *(
        "[",
        ":",
        "cd",
        "command",
        "echo",
        "exec",
        "exit",
        "export",
        "local",
        "printf",
        "read",
        "return",
        "set",
    ),
    *("test", "trap", "true", "unset", "wait", "shift"),
}
_OPENERS = {
    "if",
    "then",
    "else",
    "elif",
    "do",
    "while",
    "until",
    "!",
    "{",
    "exec",
    ";",
    "&",
    "&&",
    "|",
    "||",
    "(",
}
_CLOSERS = {"fi", "done", "}", ")", ";;", "in"}


def started_by_shell(script: str) -> set[str]:
    """The commands of a shell script, but for builtins, functions of its own, and computed paths."""
    interpreter = re.match(r"#!/usr/bin/(env) (\w+)\n", script)
    text = re.sub(r"(^|\s)#.*", r"\1", script.replace("\\\n", " "))
    inner = re.findall(r"\$\(([^()]*(?:\([^()]*\)[^()]*)*)\)", text)
    found = {command for part in inner for command in started_by_shell(part)}
    found |= set(interpreter.groups()) if interpreter else set()
    lexer = shlex.shlex(text.replace("\n", " ; "), punctuation_chars=";&|()<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    tokens = list(lexer)
    expecting, skip, own = True, "", set(re.findall(r"(\w+)\(\)", text))
    for number, token in enumerate(tokens):
        if skip:
            skip = "" if token == skip or skip == "next" else skip
            expecting = expecting or token == ";"
        elif set(token) <= set("<>&") and set(token) & set("<>"):
            skip = "next"
        elif token in _OPENERS or (token != ")" and set(token) <= set(";&|()")):
            expecting = True
        elif expecting and token == "for":
            skip, expecting = ";", False
        elif not expecting or token in _CLOSERS or re.match(r"\w+=", token):
            continue
        else:
            expecting = False
            following = tokens[number + 1] if number + 1 < len(tokens) else ""
            if _WORD.fullmatch(token) and token not in _BUILTINS | own and not following.startswith("("):
                found.add(token)
    return found
