"""How soon output arrives: the first line within 50 ms of its being printed, while the command goes on.

Environment as for life.py; needs a deployment with the full envd protocol and a machine that is not busy.
Usage: live.py --api sync|async
"""

import argparse
import asyncio
import os

import e2b

from everything import listen
from report import Report, equal, settle, without_event_loop

BOUND = 0.050  # seconds


async def tell(report, api):
    sandbox_class = e2b.Sandbox if api == "sync" else e2b.AsyncSandbox
    sandbox = None
    with report.check("create"):
        sandbox = await settle(
            sandbox_class.create(template=os.environ["E2B_TEMPLATE_ID"], timeout=300, request_timeout=180)
        )
        # The first command of a sandbox also pays for its connection and its container's first fork.
        await settle(sandbox.commands.run("true"))
    if sandbox is None:
        report.end()
    with report.check("run_live_output") as remarks:
        await within_bound(sandbox, remarks)
    with report.check("kill"):
        equal(await settle(sandbox.kill()), True, "kill")
    report.end()


async def within_bound(sandbox, remarks):
    # Scheduling noise may spoil an attempt; output that is held back spoils them all.
    for _ in range(5):
        delay, lead = await listen(sandbox)
        remarks.append(f"after {delay * 1000:.0f} ms, {lead * 1000:.0f} ms before the end")
        if delay <= BOUND and lead >= 0.4:
            return
    raise AssertionError("no attempt delivered the first line in time")


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
