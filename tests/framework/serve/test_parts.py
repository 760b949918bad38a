"""The parts of ``skyband serve`` by themselves: splitting, commands, parameters, SCRAM, values."""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.framework.serve.commands import Client, Done
from skyband.framework.serve.parameters import literal
from skyband.framework.serve.protocol import scram
from skyband.framework.serve.protocol.syntax import split
from skyband.framework.serve.protocol.values import encoded
from skyband.framework.serve.protocol.wire import BINARY, TEXT, Refused


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        ("select 1", ["select 1"]),
        ("select 1; select 2;;", ["select 1", "select 2"]),
        (" -- only a comment", []),
        ("/* a /* nested */ b */ select 1 -- end", ["select 1"]),
        ("select ';', \";\", $$;$$, $a$;$b$;$a$, e'\\';'", ["select ';', \";\", $$;$$, $a$;$b$;$a$, e'\\';'"]),
        ("select 'it''s; here'", ["select 'it''s; here'"]),
        ("select $1 + $2", ["select $1 + $2"]),
        ("select 'open; ", ["select 'open;"]),
        ("", []),
    ],
)
def test_statements_end_where_they_end(sql: str, parts: list[str]) -> None:
    assert split(sql) == parts


@given(st.text(alphabet="';\"$a-/*\\e \n", max_size=40))
def test_splitting_ends_for_any_text(text: str) -> None:
    assert all(part == part.strip() and part for part in split(text))


def test_commands_are_those_of_the_list_and_take_no_others() -> None:
    client = Client(["cuts", "other"], "a\x1bb")
    assert client.settings["application_name"] == "a?b"
    for sql, tag in (
        ("BEGIN", "BEGIN"),
        ("commit work", "COMMIT"),
        ("abort", "ROLLBACK"),
        ("DISCARD ALL", "DISCARD ALL"),
        ("set names utf8", "SET"),
    ):
        done = client.command(sql)
        assert isinstance(done, Done) and done.tag == tag
    client.command('set search_path = other, "cuts", nothing, pg_catalog')
    assert client.path == ["other", "cuts"]
    for sql in ("begin; drop table x", "set x = y", "set local memory_limit to '1'", "show memory_limit", "reset x", "set", "set role a"):
        if sql.startswith("begin;"):
            assert client.command(sql) is None
        else:
            with pytest.raises(Refused):
                client.command(sql)
    assert client.command("select 1") is None and client.command("showing") is None
    client.command("set statement_timeout to '2min'")
    assert client.seconds == 120
    client.command("set statement_timeout to '1500'")
    assert client.seconds == 1.5


@pytest.mark.parametrize("size", [100_000])
def test_long_commands_take_no_long_time(size: int) -> None:
    """A pattern with more than one way through a text would not end."""
    client = Client(["cuts"])
    for sql in ("begin" + " " * size + "x", "set transaction " + "read " * size + "x", "commit " + "work " * size, "set a" + "." * size):
        try:
            client.command(sql)
        except Refused:
            continue


def test_numbers_in_the_binary_format_are_the_numbers() -> None:
    def numeric(value: str) -> Decimal:
        (raw,) = encoded(pa.chunked_array([pa.array([Decimal(value)], pa.decimal128(38, 10))]), BINARY)
        assert raw is not None
        node = literal(raw, 1700, BINARY)
        negative = node["class"] == "FUNCTION"
        text = (node["arguments"][0]["expression"] if negative else node)["literal"]["text"]
        return -Decimal(text) if negative else Decimal(text)

    for value in ("0", "1", "-1", "10000", "9999.9999", "0.0001", "-0.0000000001", "1234567890123456.78", "100000000", "0.1"):
        assert numeric(value) == Decimal(value)


@given(st.decimals(min_value=-(10**20), max_value=10**20, places=7))
def test_any_decimal_goes_there_and_back(value: Decimal) -> None:
    (raw,) = encoded(pa.chunked_array([pa.array([value], pa.decimal128(38, 7))]), BINARY)
    assert raw is not None
    count, weight, sign, scale = struct.unpack("!hhHh", raw[:8])
    digits = struct.unpack(f"!{count}h", raw[8:])
    found = sum(Decimal(d) * Decimal(10000) ** (weight - i) for i, d in enumerate(digits))
    assert (-found if sign else found) == value and scale == 7


def texts(kind: pa.DataType, *values: Any) -> list[str | None]:
    return [None if v is None else v.decode() for v in encoded(pa.chunked_array([pa.array(values, kind)]), TEXT)]


def test_texts_are_those_of_postgresql() -> None:
    assert texts(pa.float64(), 1.0, 0.1, 1e20, float("nan"), float("-inf"), None) == ["1", "0.1", "1e+20", "NaN", "-Infinity", None]
    assert texts(pa.float32(), 0.1) == ["0.1"]
    assert texts(pa.bool_(), True, False) == ["t", "f"]
    assert texts(pa.binary(), b"\x00\xff") == ["\\x00ff"]
    assert texts(pa.date32(), 0, 2**31 - 1, -(2**31) + 1, -800000) == ["1970-01-01", "infinity", "-infinity", "0222-09-04 BC"]
    assert texts(pa.timestamp("us", "UTC"), 1, -1) == ["1970-01-01 00:00:00.000001+00", "1969-12-31 23:59:59.999999+00"]
    assert texts(pa.timestamp("s"), 0) == ["1970-01-01 00:00:00"] and texts(pa.timestamp("ns"), 1500) == ["1970-01-01 00:00:00.000001"]
    assert texts(pa.time64("us"), 1) == ["00:00:00.000001"]
    assert texts(pa.month_day_nano_interval(), (14, -3, -1_000_000_000)) == ["14 mons -3 days -00:00:01"]
    assert texts(pa.duration("us"), timedelta(days=1)) == ["1 days"]
    assert texts(pa.list_(pa.float64()), [1.5, None, float("inf")], None, []) == ["{1.5,NULL,Infinity}", None, "{}"]
    assert texts(pa.list_(pa.string()), ["a", "", "NULL", 'b "c"', "d\\e", "f,g"]) == ['{a,"","NULL","b \\"c\\"","d\\\\e","f,g"}']
    assert texts(pa.list_(pa.timestamp("us", "UTC"), 2), [0, None]) == ['{"1970-01-01 00:00:00+00",NULL}']
    assert texts(pa.list_(pa.list_(pa.int64())), [[1], None]) == ["[[1], null]"]
    assert texts(pa.decimal128(20, 10), Decimal("0.0000000001")) == ["0.0000000001"]


def test_the_proof_of_the_token_is_that_of_rfc_5802() -> None:
    known = scram.verifier("pencil and paper")
    exchange = scram.Exchange(known)
    bare = "n=,r=abc"
    challenge = exchange.challenge(f"n,,{bare}".encode()).decode()
    nonce, salt = challenge.split(",")[0][2:], base64.b64decode(challenge.split(",")[1][2:])
    final = f"c=biws,r={nonce}"
    signed = f"{bare},{challenge},{final}".encode()

    def proof(token: str) -> bytes:
        key = hmac.digest(hashlib.pbkdf2_hmac("sha256", token.encode(), salt, scram.ROUNDS), b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
        return f"{final},p=".encode() + base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True)))

    assert exchange.confirm(proof("another pencil")) is None
    assert exchange.confirm(proof("pencil and paper").replace(b"c=biws", b"c=eSws")) is None
    assert exchange.confirm(f"{final},p=".encode()) is None and exchange.confirm(f"{final},p=!".encode()) is None
    assert (exchange.confirm(proof("pencil and paper")) or b"").startswith(b"v=")
    with pytest.raises(Refused):
        exchange.challenge(b"p=tls-server-end-point,,n=,r=abc")


@pytest.mark.parametrize(
    ("raw", "oid", "form"),
    [
        (b"1", 600, TEXT), (b"\xff", 25, TEXT), (b"a\0b", 25, TEXT), (b"12", 23, BINARY), (b"x", 1700, TEXT), (b"{a", 1009, TEXT),
        (b"\0\1\0\0\x99\x99\0\0\0\1", 1700, BINARY), (b"{{1},{2}}", 1007, TEXT), (b"\0\0\0\1", 1007, BINARY),
        (struct.pack("!iiIiii", 1, 0, 20, 1, 1, 0), 1007, BINARY), (struct.pack("!iiIiii", 2, 0, 23, 1, 1, 0), 1007, BINARY),
        (struct.pack("!iiIiii", 1, 0, 23, 2**30, 1, 4), 1007, BINARY), (struct.pack("!iiIiii", 1, 0, 23, 1, 1, -7), 1007, BINARY),
        (b"zz", 17, TEXT),
        (b"\\xz", 17, TEXT), (b"1", 2950, BINARY),
    ],
)  # fmt: skip
def test_values_that_are_none_are_refused(raw: bytes, oid: int, form: int) -> None:
    with pytest.raises(Refused):
        literal(raw, oid, form)
