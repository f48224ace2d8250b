"""How the programs in this folder say what they saw.

Every check prints one JSON line: {"check": name, "ok": bool, "detail": text, "ms": whole milliseconds}. A failed check
does not end the program, so one run shows everything that is wrong; the exit code is 1 if any check failed. The last
line is always the check "end": a reader that does not see it knows that the program died on the way.
"""

import inspect
import json
import os
import time
import traceback
from contextlib import contextmanager


class Report:
    def __init__(self):
        self.failed = False

    @contextmanager
    def check(self, name):
        """Times the block and reports it under name. The block may append remarks to the list it is given."""
        remarks = []
        started = time.monotonic()
        try:
            yield remarks
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            remarks.append(f"{type(error).__name__}: {str(error)[:600]} ({where.filename.rsplit('/', 1)[-1]}:{where.lineno})")
            self._line(name, False, remarks, started)
        else:
            self._line(name, True, remarks, started)

    def _line(self, name, ok, remarks, started):
        self.failed = self.failed or not ok
        ms = round((time.monotonic() - started) * 1000)
        print(json.dumps({"check": name, "ok": ok, "detail": "; ".join(remarks), "ms": ms}), flush=True)

    def end(self):
        """Prints the closing line and exits: 0 if every check held, else 1.

        The interpreter is not asked to shut down. In about one run of thirty the newest SDK's native threads abort it
        while it does (SIGABRT after all work is done, e2b 2.63.0 with pyqwest 0.12.0 on Python 3.11), which says nothing
        about the sandbox.
        """
        self._line("end", not self.failed, [], time.monotonic())
        os._exit(1 if self.failed else 0)


def equal(got, want, what="value"):
    if got != want:
        raise AssertionError(f"{what} is {shortened(got)}, want {shortened(want)}")


def holds(condition, otherwise):
    if not condition:
        raise AssertionError(otherwise)


def shortened(value):
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:120]}... ({len(text)} characters)"


@contextmanager
def raising(exactly):
    """Expects the block to raise exactly this class, not a subclass; hands out a list that will hold the exception."""
    caught = []
    try:
        yield caught
    except Exception as error:
        if type(error) is not exactly:
            raise AssertionError(f"raised {type(error).__name__} ({str(error)[:300]}), want {exactly.__name__}") from error
        caught.append(error)
    else:
        raise AssertionError(f"nothing raised, want {exactly.__name__}")


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
