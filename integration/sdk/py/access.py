"""What each call says to each credential: one line a call, and no judgement; the test that starts it has the table.

The input is one JSON object:

  {"mine": "...", "paused": "...", "doomed": "...", "template": "...",
   "credentials": [{"name": "wrong", "key": "...", "token": "...", "target": "..."}]}

"target" is the sandbox of the data plane's calls. The answers are lines {"cell": "wrong/run", "class": "...", "text":
"..."} for what was raised, and {"cell": ..., "value": ...} for what came back. The last line is the cell "end".
Environment as for life.py. Usage: access.py --api sync|async
"""

import argparse
import asyncio
import json
import os
import ssl
import sys
import urllib.error
import urllib.request

import e2b
from e2b.connection_config import ConnectionConfig
from packaging.version import Version

from report import settle, without_event_loop


async def tell(api):
    told = json.load(sys.stdin)
    sandbox_class = e2b.Sandbox if api == "sync" else e2b.AsyncSandbox
    for credential in told["credentials"]:
        await control(sandbox_class, told, credential)
        await data(sandbox_class, credential)
    print(json.dumps({"cell": "end"}), flush=True)
    os._exit(0)  # see report.py


async def cell(credential, name, call):
    line = {"cell": f"{credential['name']}/{name}"}
    try:
        line["value"] = await settle(call())
    except Exception as error:
        line["class"], line["text"] = type(error).__name__, str(error)
    print(json.dumps(line), flush=True)


async def control(sandbox_class, told, credential):
    # Without a key the SDK takes the environment's, so there must be none.
    opts = {"validate_api_key": False} | ({"api_key": credential["key"]} if credential["key"] else {})

    async def connected():
        # With what connect answers, as another process would.
        sandbox = await settle(sandbox_class.connect(told["mine"], **opts))
        return (await settle(sandbox.commands.run("echo connected"))).stdout

    async def made():
        sandbox = await settle(sandbox_class.create(template=told["template"], timeout=300, **opts))
        result = await settle(sandbox.commands.run("echo made"))
        await settle(sandbox_class.kill(sandbox.sandbox_id, **opts))
        return result.stdout

    async def listed():
        paginator = sandbox_class.list(query=e2b.SandboxQuery(metadata={"marker": told["mine"]}), **opts)
        return [item.sandbox_id for item in await settle(paginator.next_items())]

    async def described():
        return (await settle(sandbox_class.get_info(told["mine"], **opts))).sandbox_id

    calls = {
        "create": made,
        "list": listed,
        "get_info": described,
        "set_timeout": lambda: sandbox_class.set_timeout(told["mine"], 600, **opts),
        "connect": connected,
        "get_metrics": lambda: sandbox_class.get_metrics(told["mine"], **opts),
        "create_snapshot": lambda: sandbox_class.create_snapshot(told["mine"], **opts),
        "pause": lambda: sandbox_class.pause(told["paused"], **opts),
        "kill": lambda: sandbox_class.kill(told["doomed"], **opts),
    }
    for name, call in calls.items():
        await cell(credential, name, call)
    # What a user sees who has not turned the check off.
    opts.pop("validate_api_key")
    await cell(credential, "get_info_checked", described)


async def data(sandbox_class, credential):
    headers = {"E2b-Sandbox-Id": credential["target"], "E2b-Sandbox-Port": "49983"}
    token = credential["token"] or None
    sandbox = sandbox_class(
        sandbox_id=credential["target"],
        sandbox_domain=None,
        envd_version=Version("0.3.0"),
        envd_access_token=token,
        traffic_access_token=None,
        connection_config=ConnectionConfig(
            api_key="e2b_00", extra_sandbox_headers=headers | ({"X-Access-Token": token} if token else {})
        ),
    )
    until = {"use_signature_expiration": -600} if credential["name"] == "expired" else {}

    async def ran():
        return (await settle(sandbox.commands.run("echo seen"))).stdout

    async def wrote():
        return (await settle(sandbox.files.write("/home/user/a", "written"))).path

    async def names():
        return [entry.name for entry in await settle(sandbox.files.list("/home/user")) if entry.name == "a"]

    async def processes():
        await settle(sandbox.commands.list())
        return "listed"

    calls = {
        "run": ran,
        "write": wrote,
        "read": lambda: sandbox.files.read("/home/user/a"),
        "list_dir": names,
        "exists": lambda: sandbox.files.exists("/home/user/a"),
        "list_processes": processes,
        "is_running": lambda: sandbox.is_running(),
        "signed_write": lambda: fetch("POST", sandbox.upload_url("/home/user/a", **until), headers),
        "signed_read": lambda: fetch("GET", sandbox.download_url("/home/user/a", **until), headers),
    }
    for name, call in calls.items():
        await cell(credential, name, call)


def fetch(method, url, headers):
    body = b"signed" if method == "POST" else None
    request = urllib.request.Request(
        url, data=body, method=method, headers=headers | {"Content-Type": "application/octet-stream"}
    )
    context = ssl.create_default_context() if url.startswith("https") else None
    try:
        with urllib.request.urlopen(request, context=context) as answer:
            return f"{answer.status} {answer.read().decode()}"
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--api", choices=["sync", "async"], required=True)
    arguments = parser.parse_args()
    os.environ.pop("E2B_API_KEY", None)
    if arguments.api == "sync":
        without_event_loop(tell("sync"))
    else:
        asyncio.run(tell("async"))


if __name__ == "__main__":
    main()
