"""Lines of a log: split from pieces, bounded, and joined without loss when a stream is resumed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fournos.history.logs.lines import (
    LONGEST,
    LineSplitter,
    Resumption,
    advance,
    nanoseconds,
    text_of,
    timestamp,
    written,
)
from fournos.history.logs.models import Position


def fed(pieces: list[bytes]) -> list[bytes]:
    splitter = LineSplitter()
    found = [line for piece in pieces for line in splitter.feed(piece)]
    return [*found, *splitter.rest()]


@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\n\n", b"d\ne", b""])))
def test_pieces_of_any_length_give_the_same_lines(pieces: list[bytes]) -> None:
    whole = b"".join(pieces).split(b"\n")
    assert fed(pieces) == (whole if whole[-1] else whole[:-1])


@pytest.mark.parametrize("piece", [7, 1000, 10**6])
def test_a_line_without_an_end_is_bounded(piece: int) -> None:
    text = b"x" * (5 * LONGEST) + b"\nnext\n"
    lines = fed([text[at : at + piece] for at in range(0, len(text), piece)])
    assert len(lines) == 2
    assert len(lines[0]) < LONGEST + 100
    assert lines[0].startswith(b"x" * LONGEST) and lines[0].endswith(b"[the rest of this line is left out]")
    assert lines[1] == b"next"


def test_what_a_splitter_holds_is_bounded() -> None:
    splitter = LineSplitter()
    for _ in range(100):
        assert splitter.feed(b"x" * LONGEST) == []
    assert len(splitter.rest()[0]) < LONGEST + 100


def test_timestamps() -> None:
    assert nanoseconds("1970-01-01T00:00:01Z") == 10**9
    assert nanoseconds("1970-01-01T00:00:01.5Z") == 1_500_000_000
    assert nanoseconds("1970-01-01T01:00:01.000000009+01:00") == 1_000_000_009
    assert nanoseconds("unable") == 0
    assert written(1_000_000_009) == "1970-01-01T00:00:01.000000009Z"
    assert timestamp(b"1970-01-01T00:00:01.000000009Z hello") == 1_000_000_009
    assert timestamp(b"unable to retrieve container logs") == 0
    assert text_of(b"1970-01-01T00:00:01.5Z a  b") == ("1970-01-01T00:00:01.5Z", "a  b")
    assert text_of(b"1970-01-01T00:00:01.5Z ") == ("1970-01-01T00:00:01.5Z", "")
    assert text_of(b"unable to retrieve") == ("", "unable to retrieve")
    assert text_of(b"\xff") == ("", "�")


def line(at: int, text: str) -> bytes:
    return f"{written(at)} {text}".encode()


@given(
    st.lists(st.integers(0, 4), max_size=12).map(sorted),
    st.integers(0, 12),
    st.lists(st.integers(1, 5), max_size=4),
)
def test_a_resumed_stream_repeats_and_loses_nothing(times: list[int], stored: int, cuts: list[int]) -> None:
    """The kubelet sends everything from the second of the last line on, in pieces of any size."""
    lines = [line(10**9 + at, str(number)) for number, at in enumerate(times)]
    stored = min(stored, len(lines))
    position = Position()
    for one in lines[:stored]:
        position = advance(position, [one])
    assert advance(Position(), lines[:stored]) == position
    resumption, found, rest = Resumption(position), list(lines[:stored]), lines
    for cut in [*cuts, len(lines)]:
        found += resumption.new(rest[:cut])
        rest = rest[cut:]
    assert found == lines


def test_a_message_of_the_kubelet_keeps_the_position() -> None:
    position = advance(Position(), [line(7, "a")])
    assert advance(position, [b"unable to retrieve container logs"]).at == 7
