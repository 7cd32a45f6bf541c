"""The arguments of a command: any text becomes an array that bash accepts, with the result of shlex."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fournos.systems.miniclusters.spec import quote, unescaped, words


def read(text: str) -> list[str]:
    """Returns the arguments as bash splits them."""
    code = f"set -f\na=({words(text)})\n((${{#a[@]}} == 0)) || printf '%s\\0' \"${{a[@]}}\"\n"
    found = subprocess.run(["bash", "-c", code], capture_output=True, check=False, cwd="/")
    assert found.returncode == 0, (code, found.stderr)
    return found.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("lmp -v x 2 -in in.reaxc.hns", ["lmp", "-v", "x", "2", "-in", "in.reaxc.hns"]),
        ("sh -c 'a && b'", ["sh", "-c", "a && b"]),
        ('sh -c "a \\"b\\" c"', ["sh", "-c", 'a "b" c']),
        ("one\n  two\\\n three", ["one", "two", "three"]),
        ("a && b; c | d > e &", ["a", "&&", "b;", "c", "|", "d", ">", "e", "&"]),
        ("echo it's", ["echo", "it's"]),
        ('echo "open', ["echo", '"open']),
        ("echo $(printf '%s' 'x y')", ["echo", "x", "y"]),
        ("echo `echo x`", ["echo", "x"]),
        ('echo "$(echo "x )")"', ["echo", "x )"]),
        ("echo ${NONE:-a b}", ["echo", "a", "b"]),
        ("echo $((1+1))", ["echo", "2"]),
        ("echo $(open", ["echo", "$(open"]),
        ("echo \\$HOME # no comment", ["echo", "$HOME", "#", "no", "comment"]),
        ("{a,b} ~ ! (x)", ["{a,b}", "~", "!", "(x)"]),
        ("[ -e x ] a[1]=b", ["[", "-e", "x", "]", "a[1]=b"]),
        ("echo ${A:-$(echo '}')}", ["echo", "}"]),
        ("$[1 $'a' 100$", ["$[1", "$a", "100$"]),
        ("\\", ["\\"]),
        ("", []),
    ],
)
def test_words(text: str, wanted: list[str]) -> None:
    assert read(text) == wanted


_HARD = st.text(alphabet=" \nab'\"\\$(){}[]<>;&|#!~*?=,", max_size=12)
_ANY = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1)


@settings(max_examples=100)
@given(_HARD.filter(lambda text: "$(" not in text and "${" not in text))
def test_no_text_breaks_the_script(text: str) -> None:
    """What is within $(…) and ${…} is the user's own code."""
    code = f"a=({words(text)})\necho still here\n"
    found = subprocess.run(["bash", "-n"], input=code, capture_output=True, check=False, text=True)
    assert (found.returncode, found.stderr) == (0, ""), code


@settings(max_examples=50)
@given(st.lists(_ANY, max_size=4))
def test_quoted_words_arrive_as_they_are(texts: list[str]) -> None:
    command = " ".join(map(quote, texts))
    assert shlex.split(command) == texts
    assert read(command) == texts


def test_escapes_are_those_of_a_here_document() -> None:
    assert unescaped("\\$A \\`b\\` \\\\n \\x a\\\nb $C") == "$A `b` \\n \\x ab $C"
