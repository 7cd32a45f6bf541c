"""Logging: JSON lines for machines, short lines on a terminal, with secrets hidden in both."""

from __future__ import annotations

import json
import logging
import re
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

from fournos.engine.api.values import escaped, escaped_json

# --- secrets ----------------------------------------------------------------------------------------
# Hides secrets in text that is logged or shown.

HIDDEN = "<hidden>"
BEYOND = 8192
"""Characters after the shown ones that are searched: more than a token has."""

# A search may start anywhere in a long text and must stay linear: no prefix before the words, and after a
# beginning that may be repeated nothing of any length.
_WORDS = (
    r"(?:passw(?:or)?d|passphrase|[-_]pass|token|credentials?|secret[-_]?(?:key|id|access[-_]?key)"
    r"|(?:client|app|shared|webhook)[-_]?secret|(?:api|access|account|private|ssh-private)[-_]?key"
    r"|x-amz-signature|tls\.key|\.dockerconfigjson|\.dockercfg"
    r"|(?:client-key|client-certificate|certificate-authority)-data)"
)

_HINTS = ("pass", "token", "credential", "secret", "key", "x-amz-signature", ".docker", "-data")
_LABEL = "[A-Z0-9 ]{0,64}"
PEM_BEGIN = re.compile(rf"-----BEGIN (?={_LABEL}?(?:PRIVATE KEY|CERTIFICATE)){_LABEL}+-----")
PEM_END = re.compile(rf"-----END {_LABEL}+-----")

_PATTERNS: tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...] = (
    # PEM blocks, whole or cut off at either end
    (
        ("-----begin",),
        re.compile(rf"{PEM_BEGIN.pattern}.*?(?:{PEM_END.pattern}|\Z)", re.S),
        HIDDEN,
    ),
    (("-----end",), re.compile(rf"\A(?:[A-Za-z0-9+/=]{{1,100}}+\r?\n)++{PEM_END.pattern}"), HIDDEN),
    # Tokens with a recognizable prefix: GitHub, GitLab, Vault, AWS, Slack, OpenShift, Hugging Face, OpenAI
    (
        (
            "gh",
            "github_pat_",
            "glpat-",
            "hvs.",
            "hvb.",
            "hvr.",
            "akia",
            "asia",
            "xox",
            "sha256~",
            "hf_",
            "sk-",
            "aiza",
            "dckr_pat_",
            "npm_",
            "pypi-",
        ),
        re.compile(
            r"\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|hv[sbr]\.[\w-]{8,}"
            r"|(?:AKIA|ASIA)[A-Z0-9]{16}|xox[abeprs]-[\w-]{10,}|sha256~[\w-]{20,}|hf_[A-Za-z0-9]{20,}"
            r"|sk-[\w-]{20,}|AIza[\w-]{30,}|dckr_pat_[\w-]{16,}|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{16,})"
        ),
        HIDDEN,
    ),
    # Slack webhooks
    (("hooks.slack.com",), re.compile(r"(hooks\.slack\.com/services/)[\w/-]+"), rf"\1{HIDDEN}"),
    # JSON Web Tokens, such as service account tokens: the point is looked for once a word, not once an "eyJ"
    (
        ("eyj",),
        re.compile(r"(?<![\w-])(?=[\w-]*+\.[\w-]{8})([\w-]*?)\beyJ[\w-]{8,}+\.[\w-]{8,}+(?:\.[\w-]*+)?"),
        rf"\1{HIDDEN}",
    ),
    # Authorization: Bearer xyz, Basic xyz
    (("bearer", "basic"), re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{6,}", re.I), rf"\1 {HIDDEN}"),
    # --password x, --vault-token x
    (
        ("--",),
        re.compile(rf"(?i)(?<![\w-])(--[\w-]{{0,40}}{_WORDS}\s+)(?!-)(\"(?:[^\"\\]++|\\.)*+\"|'[^']*'|\S+)"),
        rf"\1{HIDDEN}",
    ),
    # curl -u user:password
    (
        ("-u",),
        re.compile(r"(?<!\S)(-u\s{0,4}|--(?:proxy-)?user[=\s]\s{0,4})([^\s:]{1,200}):\S+"),
        rf"\1\2:{HIDDEN}",
    ),
    # the password is x
    (
        ("passw", "passphrase"),
        re.compile(
            r"(?i)\b(passw(?:or)?d|passphrase)(\s{1,4}(?:is|was)\s{1,4})"
            r"(?!(?:not|missing|required|wrong|invalid|incorrect|empty|set|unset|expired|too)\b)\S+"
        ),
        rf"\1\2{HIDDEN}",
    ),
    # "auth": "x", as in a registry's configuration
    (('"auth"',), re.compile(r"(\"auth\"\s{0,4}:\s{0,4})\"[^\"]{6,}\""), rf'\1"{HIDDEN}"'),
    # https://user:password@host
    (("://",), re.compile(r"(://[^\s/:@]+:)[^\s/@]+@"), rf"\1{HIDDEN}@"),
    # password: |, and the lines of the block
    (
        _HINTS,
        re.compile(
            rf"(?i)({_WORDS}[\"']?[ \t]{{0,9}}:[ \t]{{0,9}})[|>][-+0-9]{{0,2}}[ \t]{{0,9}}"
            r"(?:\r?\n[ \t]+[^\r\n]*+)++"
        ),
        rf"\1{HIDDEN}",
    ),
    # password: x, "token": "x", --api-key=x
    (
        _HINTS,
        re.compile(rf"(?i)({_WORDS}[\"']?\s*[:=]\s*)(\"(?:[^\"\\]++|\\.)*+\"|'[^']*'|[^\s,;&\"'}}]+)"),
        rf"\1{HIDDEN}",
    ),
    # a Secret's or kubeconfig's bytes: data: {...}, data: and indented lines of base64, kubeconfig: ...
    (
        ("data",),
        re.compile(
            r"(?i)(\b(?:string)?data:)[ \t]{0,9}"
            r"(?:\r?\n[ \t]+[\w.-]++:[ \t]+[A-Za-z0-9+/]{16,}+={0,2}(?=\r?\n|\Z))++"
        ),
        rf"\1 {HIDDEN}",
    ),
    (("data",), re.compile(r"(?i)(\b(?:string)?data[\"']?\s*[:=]\s*)\{[^{}]*\}"), rf"\1{HIDDEN}"),
    (
        ("kubeconfig",),
        re.compile(
            r"(?i)(\bkubeconfig[\"']?\s*[:=]\s*)(\"(?:[^\"\\]|\\.){40,}\"|'[^']{40,}'|[A-Za-z0-9+/=]{40,})"
        ),
        rf"\1{HIDDEN}",
    ),
)
"""Of each kind of secret: texts in lower case, one of which is in every match; what matches; its replacement.

Most texts have none of them, and looking for them takes a fraction of the time of the patterns.
"""


def redact(text: str) -> str:
    """Returns the text without values that look like secrets.

    This is the last line of defence: secrets should not be in the text at all.  Pass the whole text, not
    single lines, because a private key has many lines.
    """
    # Beyond ASCII a pattern without case matches letters that no lower case makes equal.
    lower = text.lower() if text.isascii() else None
    for hints, pattern, replacement in _PATTERNS:
        if lower is None or any(hint in lower for hint in hints):
            text = pattern.sub(replacement, text)
    return text


def redact_beginning(text: str, longest: int) -> str:
    """Returns the beginning of the text, at most `longest` characters, without values that look like secrets.

    The text is cut before it is searched; a secret that the end cuts through is recognized by what follows.
    """
    return redact(text[: longest + BEYOND])[:longest]


_FIELDS = ("system", "cluster", "kind", "namespace", "name", "uid")
_LONGEST = 2**15
"""Characters of a message; the rest of a longer one is left out."""
_COLORS = {"DEBUG": "\x1b[2m", "WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[31;1m"}

_bound: ContextVar[dict[str, str]] = ContextVar("_bound", default={})  # noqa: B039 - never changed in place


class bind:  # noqa: N801 - reads as a function; a generator's context manager takes twice the time
    """Adds these fields to every line logged in the block: system, cluster, kind, namespace, name, uid."""

    __slots__ = ("_added", "_token")

    def __init__(self, **fields: str) -> None:
        self._added = fields

    def __enter__(self) -> None:
        self._token = _bound.set(_bound.get() | self._added)

    def __exit__(self, *exc: object) -> None:
        _bound.reset(self._token)


def _fields(record: logging.LogRecord) -> dict[str, str]:
    fields = dict(_bound.get())
    key = getattr(record, "key", None)  # logging's `extra={"key": key}`
    if key is not None:
        fields |= {"namespace": key.namespace, "name": key.name}
    return {field: fields[field] for field in _FIELDS if fields.get(field)}


def _message(record: logging.LogRecord) -> str:
    return redact_beginning(record.getMessage(), _LONGEST)


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return redact(formatter.formatException(record.exc_info)) if record.exc_info else ""


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON: time, level, logger, message, bound fields, `traceback`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
            **_fields(record),
        }
        if traceback := _traceback(self, record):
            line["traceback"] = traceback
        return escaped_json(json.dumps(line, ensure_ascii=False))


class HumanFormatter(logging.Formatter):
    """Formats a record as one short line for a terminal, with a traceback below it."""

    def format(self, record: logging.LogRecord) -> str:
        fields = _fields(record)
        about = "/".join(filter(None, (fields.get("namespace"), fields.get("name"))))
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        color = _COLORS.get(record.levelname, "")
        line = f"{time} {color}{record.levelname:<7}{chr(27) + '[0m' if color else ''} "
        line += f"{about}: " if about else ""
        line += escaped(_message(record))
        traceback = escaped(_traceback(self, record))
        return f"{line}\n{traceback}" if traceback else line


def configure(
    level: str = "INFO",
    *,
    human: bool | None = None,
    stream: TextIO | None = None,
) -> None:
    """Sets up the root logger.

    `human` None: short lines if `stream` (default: stderr) is a terminal, else JSON.  Raises ValueError for
    an unknown level.
    """
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    chosen = stream.isatty() if human is None else human
    handler.setFormatter(HumanFormatter() if chosen else JsonFormatter())
    root = logging.getLogger()
    root.setLevel(level.upper())
    root.handlers[:] = [handler]
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
