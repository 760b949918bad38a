"""Random damage to a good spec never gives a traceback, and every error has a place inside the file."""

from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.base.errors import CODES
from skyband.framework.plan.compile import compile_job
from skyband.framework.spec.load import validate_text
from tests.framework.spec.examples import ENV, OTHERS, SENSORS, other
from tests.seeds import cases

BASES = [SENSORS, *map(other, OTHERS)]
SNIPPETS = [
    "",
    " ",
    "\n",
    "\t",
    "{",
    "}",
    "[",
    "]",
    ":",
    ": ",
    ",",
    "'",
    '"',
    "#",
    "- ",
    "*",
    "&a",
    "*a",
    "!!",
    "|",
    ">",
    "${",
    "${X}",
    "$${",
    "null",
    "yes",
    "no",
    "0",
    "-1",
    "1.5",
    ".nan",
    ".inf",
    "~",
    "k",
    "a.",
    "\u00e9",
    "\u2028",
    "\x00",
    "\\",
    "<<: ",
    "? ",
    "---\n",
    "%",
    "@",
    "`",
    "2001-01-01",
    "1:30",
]
VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-5, 5), st.floats(), st.sampled_from(["x", "1 day", "temp", "${X}", "", "topk", "a.b"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["k", "type", "x", "derive", "combine", "1", ""]), inner, max_size=3)
    ),
    max_leaves=5,
)


def check(text: str) -> None:
    job, errors = validate_text(text, ENV, "spec.yaml")
    assert (job is None) == bool(errors)
    if job is not None:
        assert compile_job(job).job == job.job
    lines = text.count("\n") + text.count("\r") + text.count("\u2028") + text.count("\u2029") + text.count("\x85") + 1
    for e in errors:
        assert e.code in CODES and e.code != "SKY-E900", str(e)
        assert e.where is not None and 1 <= e.where.line <= lines and e.where.col >= 1
        assert e.render()


@settings(deadline=None, max_examples=cases(250))
@given(st.data())
def test_damaged_text(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(BASES))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 12))
        text = text[:at] + data.draw(st.sampled_from(SNIPPETS)) + text[at + cut :]
    check(text)


@settings(deadline=None, max_examples=cases(250))
@given(st.data())
def test_damaged_structure(data: st.DataObject) -> None:
    import yaml

    spec = yaml.safe_load(data.draw(st.sampled_from(BASES)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = spec
        while isinstance(at, dict | list) and at:
            key = data.draw(st.sampled_from(sorted(at, key=str) if isinstance(at, dict) else list(range(len(at)))))
            inner = at[key]
            if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
                if data.draw(st.booleans()) or isinstance(at, list):
                    at[key] = data.draw(VALUES)
                else:
                    del at[key]
                break
            at = inner
    check(yaml.safe_dump(spec, sort_keys=False))
