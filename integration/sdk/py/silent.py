"""A command that says nothing for a long time and then one word; only keepalives keep its stream alive.

Environment as for life.py. Usage: silent.py --api sync|async [--seconds 180] [--timeout 0]

--timeout is the command's own limit in seconds, 0 for none; a ROCK deployment wants one of at most 60.
"""

import argparse
import asyncio
import os
import time

import e2b

from report import Report, equal, holds, settle, without_event_loop


async def wait_in_silence(report, arguments):
    sandbox_class = e2b.Sandbox if arguments.api == "sync" else e2b.AsyncSandbox
    sandbox = None
    with report.check("create"):
        sandbox = await settle(
            sandbox_class.create(
                template=os.environ["E2B_TEMPLATE_ID"], timeout=arguments.seconds + 300, request_timeout=180
            )
        )
    if sandbox is None:
        report.end()
    with report.check("silent_command"):
        started = time.monotonic()
        result = await settle(
            sandbox.commands.run(f"sleep {arguments.seconds}; echo awake", timeout=arguments.timeout)
        )
        took = time.monotonic() - started
        equal((result.stdout, result.exit_code), ("awake\n", 0), "result")
        holds(took >= arguments.seconds, f"the command ended after {took:.1f} s")
    with report.check("kill"):
        equal(await settle(sandbox.kill()), True, "kill")
    report.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--api", choices=["sync", "async"], required=True)
    parser.add_argument("--seconds", type=int, default=180)
    parser.add_argument("--timeout", type=float, default=0)
    arguments = parser.parse_args()
    if arguments.api == "sync":
        without_event_loop(wait_in_silence(Report(), arguments))
    else:
        asyncio.run(wait_in_silence(Report(), arguments))


if __name__ == "__main__":
    main()
