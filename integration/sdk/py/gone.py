"""What each call answers when its sandbox is not there: one sandbox that never was, one that was killed.

The classes differ between SDK generations, and programs decide by them whether to throw a sandbox away; the table
below is the contract. Environment as for life.py. Usage: gone.py --api sync|async
"""

import argparse
import asyncio
import importlib.metadata
import os
import uuid

import e2b

from report import Report, equal, holds, raising, settle, without_event_loop

# The class raised by every data-plane call on a sandbox that the registry says is gone. Before the newest generation
# had a class for it, HTTP 502 and the Connect code "unavailable" were taken for the sandbox's own timeout.
DATA_PLANE_CLASS = {
    "2.34.0": "TimeoutException",
    "2.63.0": "SandboxNotRunningException",
}

# This text is part of the contract with the newest generation: without it the class is SandboxUnreachableException.
DATA_PLANE_TEXT = "was not found"


async def tell(report, api):
    sandbox_class = e2b.Sandbox if api == "sync" else e2b.AsyncSandbox
    never = f"never-was-{uuid.uuid4().hex}"

    with report.check("get_info_unknown"):
        with raising(e2b.SandboxNotFoundException):
            await settle(sandbox_class.get_info(never))
    with report.check("set_timeout_unknown"):
        with raising(e2b.SandboxNotFoundException):
            await settle(sandbox_class.set_timeout(never, 600))
    with report.check("kill_unknown"):
        equal(await settle(sandbox_class.kill(never)), False, "kill")

    sandbox = None
    with report.check("create_then_kill"):
        sandbox = await settle(
            sandbox_class.create(template=os.environ["E2B_TEMPLATE_ID"], timeout=300, request_timeout=180)
        )
        # One call of each kind while it lives, so that connections and caches are warm when it goes.
        await settle(sandbox.commands.run("true"))
        equal(await settle(sandbox.files.exists("/tmp")), True, "exists")
        equal(await settle(sandbox.kill()), True, "kill")
    if sandbox is None:
        report.end()

    with report.check("get_info_killed"):
        with raising(e2b.SandboxNotFoundException):
            await settle(sandbox.get_info())
    with report.check("set_timeout_killed"):
        with raising(e2b.SandboxNotFoundException):
            await settle(sandbox.set_timeout(600))
    with report.check("kill_killed"):
        equal(await settle(sandbox.kill()), False, "kill")
    with report.check("is_running_killed"):
        equal(await settle(sandbox.is_running()), False, "is_running")

    wanted = getattr(e2b, DATA_PLANE_CLASS[importlib.metadata.version("e2b")])
    calls = {
        "run": lambda: sandbox.commands.run("true"),
        "run_background": lambda: sandbox.commands.run("true", background=True),
        "files_read": lambda: sandbox.files.read("/tmp/x"),
        "files_write": lambda: sandbox.files.write("/tmp/x", "y"),
        "files_list": lambda: sandbox.files.list("/tmp"),
        "files_exists": lambda: sandbox.files.exists("/tmp"),
        "files_get_info": lambda: sandbox.files.get_info("/tmp"),
        "files_make_dir": lambda: sandbox.files.make_dir("/tmp/x"),
    }
    for name, call in calls.items():
        with report.check(f"{name}_killed") as remarks:
            with raising(wanted) as caught:
                await settle(call())
            remarks.append(f"{type(caught[0]).__name__}: {caught[0]}")
            holds(DATA_PLANE_TEXT in str(caught[0]), f"no {DATA_PLANE_TEXT!r} in {str(caught[0])!r}")
    report.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--api", choices=["sync", "async"], required=True)
    arguments = parser.parse_args()
    if arguments.api == "sync":
        without_event_loop(tell(Report(), "sync"))
    else:
        asyncio.run(tell(Report(), "async"))


if __name__ == "__main__":
    main()
