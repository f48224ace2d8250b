"""How capability.py says what a call did.

One JSON line a call: {"call": name, "outcome": "works"}, or "raised" with the exception's class, its text and whether the class
is one of the SDK's own, or "wrong" with a text when the call returned something else than it should, or "absent" when the SDK has
no such call, or "elsewhere" when it names a host that is not this deployment's. A call that cannot be tried because an earlier one failed
says "unreached".
"""

import inspect
import json
import os
import sys


class Absent(Exception):
    """The SDK has no such call."""


class Unreached(Exception):
    """There is nothing to try the call on."""


class Elsewhere(Exception):
    """The SDK names a host that is not this deployment's."""


class Refused(Exception):
    """A plain HTTP request, made with what the SDK returned, was answered with an error status."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


async def tell(call, body):
    """Runs body, a coroutine function, prints what became of it and returns its result, None when it failed."""
    line, result = {"call": call}, None
    try:
        result = await body()
        line["outcome"] = "works"
    except (Absent, Unreached, Elsewhere) as error:
        line["outcome"] = type(error).__name__.lower()
    except AssertionError as error:
        line |= {"outcome": "wrong", "text": str(error)}
    except Refused as error:
        line |= {"outcome": "refused", "class": f"HTTP {error.status}", "text": str(error)}
    except Exception as error:
        module = type(error).__module__.split(".")[0]
        line |= {"outcome": "raised", "class": type(error).__name__, "text": str(error), "typed": module == "e2b"}
    say(line)
    return result


def say(line):
    print(json.dumps(line), flush=True)


def hear():
    """Waits until the test has read what was said."""
    if not sys.stdin.readline():
        os._exit(2)


def equal(got, want, what="value"):
    if got != want:
        raise AssertionError(f"{what} is {got!r}, want {want!r}")


def holds(condition, otherwise):
    if not condition:
        raise AssertionError(otherwise)


async def settle(value):
    """The result of an SDK call, whether it came from the synchronous or the asynchronous API."""
    return await value if inspect.isawaitable(value) else value


def without_event_loop(coroutine):
    """Runs a coroutine that never suspends, so that the synchronous SDK is used as its users use it: no loop around it."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise RuntimeError("the program suspended although it uses the synchronous SDK")
