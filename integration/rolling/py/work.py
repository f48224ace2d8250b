"""A user's program that goes on through a deploy, with an unmodified E2B SDK.

--work follow: it follows a command that prints numbers, and follows it again when told that the gateway restarts.
--work calls: it makes short calls, one after the other; each must simply work.

Prints one JSON object a line: {"event": "working"} once, then {"event": "failure", "class": ..., "message": ...} for each
exception but the announced one, and {"event": "end", "done": n, "again": n} after a line on standard input: numbers heard or calls
made, and how often the command was followed again. Environment as for the programs of integration/sdk.
"""

import argparse
import json
import os
import sys
import threading
import time

import e2b

COMMAND = "n=0; while echo $n; do n=$((n+1)); sleep 1; done"
RESTARTING = "The gateway is restarting"

told = threading.Event()


class Enough(Exception):
    """The program was told to stop."""


def tell(**event):
    print(json.dumps(event), flush=True)


def failed(e):
    tell(event="failure", **{"class": type(e).__name__}, message=str(e))


def follow(sandbox):
    heard, again = [], 0

    def hear(text):
        if not heard:
            tell(event="working")
        heard.extend(int(n) for n in text.split())
        if told.is_set():
            raise Enough

    handle = sandbox.commands.run(COMMAND, background=True, timeout=0)
    while not told.is_set():
        try:
            handle.wait(on_stdout=hear)
            raise AssertionError("the command has ended")
        except Enough:
            break
        except e2b.SandboxException as e:
            if RESTARTING not in str(e):
                failed(e)
                break
            again += 1
            handle = sandbox.commands.connect(handle.pid, timeout=0)
    if sorted(set(heard)) != heard:
        failed(AssertionError(f"numbers came twice or in disorder: {heard}"))
    return len(heard), again


def calls(sandbox):
    done = 0
    while not told.is_set():
        for call in (
            lambda: sandbox.commands.run("echo here").stdout == "here\n",
            lambda: sandbox.files.write("/tmp/note", "note").path == "/tmp/note",
            lambda: sandbox.files.read("/tmp/note") == "note",
            lambda: [f.name for f in sandbox.files.list("/tmp")] == ["note"],
            sandbox.is_running,
            lambda: sandbox.get_info().sandbox_id == sandbox.sandbox_id,
        ):
            try:
                if not call():
                    raise AssertionError("the answer is wrong")
            except Exception as e:
                failed(e)
            done += 1
            time.sleep(0.05)
        if done == 6:
            tell(event="working")
    return done, 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--api")
    parser.add_argument("--work", choices=["follow", "calls"])
    work = {"follow": follow, "calls": calls}[parser.parse_args().work]

    def wait():
        sys.stdin.readline()
        told.set()

    sandbox = e2b.Sandbox.create(template=os.environ["E2B_TEMPLATE_ID"], timeout=600)
    threading.Thread(target=wait, daemon=True).start()
    try:
        done, again = work(sandbox)
    except Exception as e:
        failed(e)
        done, again = 0, 0
    tell(event="end", done=done, again=again)
    os._exit(0)  # see report.py of integration/sdk


main()
