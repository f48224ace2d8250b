"""Runs commands through an unmodified E2B SDK, as told line by line, and says what became of each.

Environment as for the programs in integration/sdk. Usage: commands.py --api sync

Every line of the input is one JSON object:

  {"id": 1, "thread": 3, "do": "create", "timeout": 3600}
  {"id": 2, "thread": 3, "do": "run", "sandbox": "...", "command": "echo hi", "user": "c2", "timeout": 60}

Each is done in the thread that it names, which starts with its first line; a thread does one thing at a time. The
answers are lines too, one for each, in the order in which things end:

  {"id": 1, "sandbox": "..."}
  {"id": 2, "stdout": "hi\\n", "exit": 0}
  {"id": 2, "error": {"class": "ReadError", "sandbox": false, "text": "..."}}

"sandbox" tells whether the exception is a SandboxException. The end of the input ends the program.
"""

import argparse
import json
import os
import queue
import sys
import threading

import e2b

sandboxes = {}
printing = threading.Lock()


def run(order):
    result = sandboxes[order["sandbox"]].commands.run(order["command"], user=order["user"], timeout=order["timeout"])
    return {"stdout": result.stdout, "exit": result.exit_code}


def create(order):
    sandbox = e2b.Sandbox.create(template=os.environ["E2B_TEMPLATE_ID"], timeout=order["timeout"], metadata={"of": "headline"})
    sandboxes[sandbox.sandbox_id] = sandbox
    return {"sandbox": sandbox.sandbox_id}


def forget(order):
    del sandboxes[order["sandbox"]]
    return {}


DO = {"create": create, "run": run, "forget": forget}


def answer(order):
    try:
        return DO[order["do"]](order)
    except e2b.CommandExitException as ended:
        return {"stdout": ended.stdout, "exit": ended.exit_code}
    except Exception as error:
        ours = isinstance(error, e2b.SandboxException)
        return {"error": {"class": type(error).__name__, "sandbox": ours, "text": str(error)[:600]}}


def work(orders):
    while True:
        order = orders.get()
        line = json.dumps({"id": order["id"], **answer(order)}) + "\n"
        with printing:
            sys.stdout.write(line)
            sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--api", choices=["sync"], required=True)
    parser.parse_args()
    threads = {}
    for line in sys.stdin:
        order = json.loads(line)
        if order["thread"] not in threads:
            threads[order["thread"]] = queue.SimpleQueue()
            threading.Thread(target=work, args=(threads[order["thread"]],), daemon=True).start()
        threads[order["thread"]].put(order)
    # See report.py of integration/sdk: the newest SDK's native threads may abort an interpreter that shuts down. A thread
    # that hangs would keep it from doing so at all.
    os._exit(0)


if __name__ == "__main__":
    main()
