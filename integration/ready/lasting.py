"""One long command, silent to its end, in a sandbox with a shorter timeout, through an unmodified E2B SDK.

Prints one JSON object: {"stdout": ..., "exit_code": ..., "seconds": ..., "running": whether the sandbox runs afterwards},
or {"class": ..., "message": ...} when the SDK raised something. Environment as for the programs of integration/sdk, and
SECONDS, the length of the command.
"""

import json
import os
import time

import e2b


def main():
    begun = time.monotonic()
    try:
        sandbox = e2b.Sandbox.create(template=os.environ["E2B_TEMPLATE_ID"], timeout=120, request_timeout=180)
        result = sandbox.commands.run(f"sleep {os.environ['SECONDS']}; echo survived", timeout=0)
        told = {"stdout": result.stdout, "exit_code": result.exit_code, "running": sandbox.is_running()}
    except BaseException as e:
        told = {"class": type(e).__name__, "message": str(e)}
    print(json.dumps({**told, "seconds": round(time.monotonic() - begun)}))


main()
