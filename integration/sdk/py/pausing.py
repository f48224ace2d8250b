"""What one process makes, another one uses, pauses, starts again and ends.

Usage: pausing.py --api sync|async --step make|use --id ID

make creates the sandbox ID with a file in it, and tries what a create cannot have; use runs in another process after it.
Environment as for life.py, with a gateway that pauses and resumes and a sandbox domain that nobody needs to reach.
"""

import argparse
import asyncio
import os

import e2b

from report import Report, equal, holds, raising, settle, without_event_loop

FILE = "/home/user/kept.txt"

# What cannot be kept, by the name of the field that the refusal must say.
REFUSED = {
    "allow_internet_access": {"allow_internet_access": False},
    "network.denyOut": {"network": {"deny_out": ["0.0.0.0/0"]}},
    "network.maskRequestHost": {"network": {"mask_request_host": "localhost:${PORT}"}},
    "autoResume.enabled": {"lifecycle": {"on_timeout": "pause", "auto_resume": True}},
    "mcp": {"mcp": {"browserbase": {"apiKey": "k", "geminiApiKey": "g", "projectId": "p"}}},
    "volumeMounts": {"volume_mounts": {"/mnt/data": "data"}},
}


class Pausing:
    def __init__(self, arguments):
        self.arguments = arguments
        self.report = Report()
        self.sandbox_class = e2b.Sandbox if arguments.api == "sync" else e2b.AsyncSandbox
        self.template = os.environ["E2B_TEMPLATE_ID"]

    async def make(self):
        with self.report.check("create_with_defaults"):
            sandbox = await settle(self.sandbox_class.create(self.template))
            equal((await settle(sandbox.commands.run("echo made"))).stdout, "made\n", "stdout")
            holds(await settle(sandbox.kill()), "it was not there to be killed")
        for field, options in REFUSED.items():
            with self.report.check(f"refused:{field}"):
                with raising(e2b.SandboxException) as caught:
                    await settle(self.sandbox_class.create(self.template, **options))
                holds(f"400: {field} is not offered by this deployment" in str(caught[0]), str(caught[0]))
        with self.report.check("create_private"):
            sandbox = await settle(self.sandbox_class.create(self.template, network={"allow_public_traffic": False}))
            holds((sandbox.traffic_access_token or "").startswith("e2bt_"), f"the traffic token is {sandbox.traffic_access_token}")
            await settle(sandbox.kill())
        with self.report.check("create"):
            sandbox = await settle(
                self.sandbox_class.create(
                    self.template,
                    timeout=600,
                    metadata={"ap-sandbox-id": self.arguments.id},
                    lifecycle={"on_timeout": "pause"},
                )
            )
            equal(sandbox.sandbox_id, self.arguments.id, "id")
            equal(sandbox.traffic_access_token, None, "traffic token")
            equal(sandbox.sandbox_domain, "sandbox.example.com", "domain")
            await settle(sandbox.files.write(FILE, "kept"))
            info = await settle(sandbox.get_info())
            equal(info.metadata, {"ap-sandbox-id": self.arguments.id}, "metadata")
        self.report.end()

    async def use(self):
        sandbox_id = self.arguments.id
        with self.report.check("connect"):
            before = await settle(self.sandbox_class.get_info(sandbox_id))
            sandbox = await settle(self.sandbox_class.connect(sandbox_id, timeout=60))
            equal(await settle(sandbox.files.read(FILE)), "kept", "file")
            equal(sandbox.sandbox_domain, "sandbox.example.com", "domain")
            after = await settle(sandbox.get_info())
            holds(after.end_at >= before.end_at, f"connect took time away: {before.end_at}, {after.end_at}")
        with self.report.check("pause"):
            equal(await settle(sandbox.pause()), True, "pause")
            equal(await settle(sandbox.pause()), False, "pause again")
            equal((await settle(sandbox.get_info())).state, e2b.SandboxState.PAUSED, "state")
            equal(await settle(sandbox.is_running()), False, "is_running")
            with raising(e2b.SandboxException) as caught:
                await settle(sandbox.commands.run("echo asleep"))
            holds("is paused" in str(caught[0]), str(caught[0]))
        with self.report.check("resume"):
            sandbox = await settle(self.sandbox_class.connect(sandbox_id, timeout=120))
            equal(await settle(sandbox.files.read(FILE)), "kept", "file")
            equal((await settle(sandbox.commands.run("echo awake"))).stdout, "awake\n", "stdout")
            equal((await settle(sandbox.get_info())).state, e2b.SandboxState.RUNNING, "state")
        with self.report.check("kill"):
            equal(await settle(sandbox.kill()), True, "kill")
            with raising(e2b.SandboxNotFoundException):
                await settle(self.sandbox_class.connect(sandbox_id))
            with raising(e2b.SandboxNotFoundException):
                await settle(self.sandbox_class.pause(sandbox_id))
        self.report.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--api", choices=["sync", "async"], required=True)
    parser.add_argument("--step", choices=["make", "use"], required=True)
    parser.add_argument("--id", required=True)
    arguments = parser.parse_args()
    step = getattr(Pausing(arguments), arguments.step)
    if arguments.api == "sync":
        without_event_loop(step())
    else:
        asyncio.run(step())


if __name__ == "__main__":
    main()
