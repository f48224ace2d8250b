"""A command that prints a number every 200 ms, through an unmodified E2B SDK, until it is told to stop or fails.

Prints one JSON object a line: {"event": "ticking"} at the first number, {"event": "end", "ticks": n} when the command
has ended and its numbers came whole and in order, or {"event": "error", "class": ..., "message": ...}. A line on
standard input stops the command. Environment as for the programs of integration/sdk.
"""

import json
import os
import sys
import threading

import e2b

COMMAND = "cd /tmp; i=0; while [ ! -e stop ]; do echo $i; i=$((i+1)); sleep 0.2; done"


def tell(**event):
    print(json.dumps(event), flush=True)


def stop(sandbox):
    if sys.stdin.readline():
        sandbox.files.write("/tmp/stop", "")


def main():
    output = []

    def hear(text):
        if not output:
            tell(event="ticking")
        output.append(text)

    try:
        sandbox = e2b.Sandbox.create(template=os.environ["E2B_TEMPLATE_ID"], timeout=300, request_timeout=180)
        threading.Thread(target=stop, args=(sandbox,), daemon=True).start()
        sandbox.commands.run(COMMAND, timeout=0, on_stdout=hear)
        numbers = [int(n) for n in "".join(output).split()]
        if numbers != list(range(len(numbers))):
            raise AssertionError(f"numbers are missing or came twice: {numbers}")
        tell(event="end", ticks=len(numbers))
    except BaseException as e:
        tell(event="error", **{"class": type(e).__name__}, message=str(e))


main()
