"""Does what it is asked, one JSON object a line, and answers each with a line: {"value": ...} or {"class", "text"} of what
was raised. The test that starts it knows what is right.

  {"do": "create", "metadata": {...}}                          the id
  {"do": "run", "id": "...", "command": "..."}                 its output; the sandbox must be one created here
  {"do": "list", "metadata": {...}, "state": [...], "limit": n}  {"ids": [...], "pages": n, "first": [...]}, all pages
  {"do": "kill", "id": "..."}                                  whether there was one

Every ask has "key", and may have "cluster", the value of X-Cluster. Environment as for life.py. Usage: asks.py --api sync|async
"""

import argparse
import asyncio
import json
import os
import sys

import e2b

from report import settle, without_event_loop

created = {}


def described(item):
    return [item.state.value, item.template_id, item.cpu_count, item.memory_mb, item.metadata, item.started_at.year > 2000, item.end_at > item.started_at]


async def create(sandbox_class, ask, opts):
    sandbox = await settle(
        sandbox_class.create(template=os.environ["E2B_TEMPLATE_ID"], timeout=300, metadata=ask.get("metadata"), **opts)
    )
    created[sandbox.sandbox_id] = sandbox
    return sandbox.sandbox_id


async def run(_, ask, opts):
    return (await settle(created[ask["id"]].commands.run(ask["command"]))).stdout


async def listed(sandbox_class, ask, opts):
    query = {}
    if "metadata" in ask:
        query["metadata"] = ask["metadata"]
    if "state" in ask:
        query["state"] = [e2b.SandboxState(state) for state in ask["state"]]
    if query:
        opts["query"] = e2b.SandboxQuery(**query)
    if "limit" in ask:
        opts["limit"] = ask["limit"]
    paginator, ids, pages, first = sandbox_class.list(**opts), [], 0, None
    while pages == 0 or paginator.has_next:
        items = await settle(paginator.next_items())
        ids += [item.sandbox_id for item in items]
        pages += 1
        if items and first is None:
            first = described(items[0])
    return {"ids": ids, "pages": pages, "first": first}


async def kill(sandbox_class, ask, opts):
    return await settle(sandbox_class.kill(ask["id"], **opts))


async def answer(api):
    sandbox_class = e2b.Sandbox if api == "sync" else e2b.AsyncSandbox
    calls = {"create": create, "run": run, "list": listed, "kill": kill}
    for line in iter(sys.stdin.readline, ""):
        ask = json.loads(line)
        opts = {"api_key": ask["key"]} | ({"headers": {"X-Cluster": ask["cluster"]}} if "cluster" in ask else {})
        try:
            said = {"value": await calls[ask["do"]](sandbox_class, ask, opts)}
        except Exception as error:
            said = {"class": type(error).__name__, "text": str(error)}
        print(json.dumps(said), flush=True)
    os._exit(0)  # see report.py


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--api", choices=["sync", "async"], required=True)
    api = parser.parse_args().api
    if api == "sync":
        without_event_loop(answer(api))
    else:
        asyncio.run(answer(api))


main()
