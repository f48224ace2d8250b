"""How soon output arrives: each line within 50 ms of its being printed, while the command goes on.

Environment as for life.py; needs a deployment with the full envd protocol and a machine that is not busy.
Usage: live.py --api sync|async
"""

import argparse
import asyncio
import os

import e2b

from everything import live_output
from report import Report, equal, settle, without_event_loop


async def listen(report, api):
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
    await live_output(report, sandbox, 0.050)
    with report.check("kill"):
        equal(await settle(sandbox.kill()), True, "kill")
    report.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--api", choices=["sync", "async"], required=True)
    arguments = parser.parse_args()
    if arguments.api == "sync":
        without_event_loop(listen(Report(), "sync"))
    else:
        asyncio.run(listen(Report(), "async"))


if __name__ == "__main__":
    main()
