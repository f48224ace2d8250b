"""Every call of the E2B SDK once, and what became of it; told.py has the form of the lines.

Reads E2B_API_KEY and E2B_DOMAIN, or E2B_API_URL and E2B_SANDBOX_URL (all by the SDK itself), E2B_TEMPLATE_ID and SSL_CERT_FILE.
After the first sandbox was made it prints {"sandbox": id, "host": that of port 8000} and waits for a line, so that the test can
start servers in the sandbox. {"stop": id} asks for the end of its container, and it waits again.

Usage: capability.py --api sync|async [--connect ID]
"""

import argparse
import asyncio
import itertools
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid

import e2b

import elsewhere
from told import Elsewhere, Refused, Unreached, equal, hear, holds, say, settle, tell, without_event_loop

TEMPLATE = os.environ["E2B_TEMPLATE_ID"]
# Where the servers are that the test starts in the sandbox. The record maps port 8080 and none of the others.
MAPPED, SERVER, MCP, INTERPRETER = 8080, 8000, 50005, 49999


class Program:
    def __init__(self, api, connects_to=None):
        self.api = api
        self.connects_to = connects_to
        self.Sandbox = e2b.Sandbox if api == "sync" else e2b.AsyncSandbox
        self.run_id = uuid.uuid4().hex
        self.directory = f"/home/user/{self.run_id}"
        self._sandbox = None
        self.others = []

    @property
    def sandbox(self):
        if self._sandbox is None:
            raise Unreached
        return self._sandbox

    async def go(self):
        if self.connects_to:
            await tell("connect_by_id", self.connect_by_id)
            os._exit(0)
        self._sandbox = await tell("create", self.create)
        if self._sandbox is not None:
            say({"sandbox": self._sandbox.sandbox_id, "host": self._sandbox.get_host(SERVER)})
            hear()
        for name in CALLS:
            if name == "connect_by_id" and self._sandbox is not None:
                subprocess.run([sys.executable, __file__, "--api", self.api, "--connect", self._sandbox.sandbox_id], stdin=subprocess.DEVNULL)
            else:
                await tell(name, getattr(self, name))
        for name in elsewhere.CALLS:
            await tell(name, lambda name=name: getattr(elsewhere, name)(self))
        for name in ["pause", "resume"]:
            await tell(name, getattr(self, name))
        await tell("kill", self.kill)
        for other in self.others:
            await settle(other.kill())
        say({"call": "end", "outcome": "works"})
        # The interpreter is not asked to shut down: the newest SDK's native threads may abort it while it does.
        os._exit(0)

    # Lifecycle

    async def create(self):
        return await settle(
            self.Sandbox.create(
                template=TEMPLATE, timeout=600, metadata={"run": self.run_id, "a key": "b&c=d"}, envs={"GIVEN": "at create"}, request_timeout=60
            )
        )

    async def made(self, **options):
        """A sandbox with these options, ended with the program."""
        sandbox = await settle(self.Sandbox.create(template=TEMPLATE, request_timeout=60, **options))
        self.others.append(sandbox)
        return sandbox

    async def create_plain(self):
        sandbox = await self.made()
        info = await settle(sandbox.get_info())
        holds(250 <= (info.end_at - info.started_at).total_seconds() <= 400, f"it lives from {info.started_at} to {info.end_at}")

    async def create_auto_pause(self):
        await self.made(lifecycle={"on_timeout": "pause"})

    async def create_no_internet(self):
        await self.made(allow_internet_access=False)
        holds(False, "it was made as if nothing had been asked for: ROCK has no egress policy")

    async def create_network(self):
        await self.made(network={"deny_out": ["8.8.8.8/32"]})

    async def create_private(self):
        sandbox = await self.made(network={"allow_public_traffic": False})
        holds(sandbox.traffic_access_token, "there is no traffic token")
        if "E2B_DOMAIN" in os.environ:
            url = f"https://{sandbox.get_host(SERVER)}/"
            equal(status(url), 403, "status without the token")
            equal(status(url, {"e2b-traffic-access-token": sandbox.traffic_access_token}), 502, "status with it, where nothing listens")

    async def create_volume(self):
        await self.made(volume_mounts={"/mnt/data": "some-volume"})

    async def get_info(self):
        info = await settle(self.sandbox.get_info())
        equal((info.sandbox_id, info.state.value), (self.sandbox.sandbox_id, "running"), "(id, state)")
        equal(info.metadata.get("a key"), "b&c=d", "metadata")
        by_id = await settle(self.Sandbox.get_info(self.sandbox.sandbox_id))
        equal(by_id.sandbox_id, self.sandbox.sandbox_id, "id by id")

    async def is_running(self):
        equal(await settle(self.sandbox.is_running()), True, "is_running")

    async def set_timeout(self):
        before = (await settle(self.sandbox.get_info())).end_at
        await settle(self.sandbox.set_timeout(1800))
        after = (await settle(self.sandbox.get_info())).end_at
        holds((after - before).total_seconds() > 600, f"end_at went from {before} to {after}")

    async def listed(self, **query):
        paginator, pages = self.Sandbox.list(**query), []
        while paginator.has_next:
            pages.append([item.sandbox_id for item in await settle(paginator.next_items())])
        return pages

    async def list_metadata(self):
        pages = await self.listed(query=e2b.SandboxQuery(metadata={"run": self.run_id, "a key": "b&c=d"}))
        equal(pages, [[self.sandbox.sandbox_id]], "pages")

    async def list_all(self):
        pages = await self.listed()
        holds(self.sandbox.sandbox_id in sum(pages, []), f"not among {pages}")

    async def list_state(self):
        pages = await self.listed(query=e2b.SandboxQuery(metadata={"run": self.run_id}, state=[e2b.SandboxState.RUNNING, e2b.SandboxState.PAUSED]))
        equal(pages, [[self.sandbox.sandbox_id]], "pages")

    async def list_paged(self):
        mine = {(await self.made(metadata={"page": self.run_id}, timeout=300)).sandbox_id for _ in range(3)}
        pages = await self.listed(query=e2b.SandboxQuery(metadata={"page": self.run_id}), limit=1)
        equal([len(page) for page in pages if page], [1, 1, 1], "items a page")
        equal(set(sum(pages, [])), mine, "ids")

    async def list_paused(self):
        await self.listed(query=e2b.SandboxQuery(state=[e2b.SandboxState.PAUSED]))

    async def connect(self):
        before = (await settle(self.sandbox.get_info())).end_at
        await settle(self.sandbox.connect(timeout=60))
        after = (await settle(self.sandbox.get_info())).end_at
        holds(abs((after - before).total_seconds()) < 61, f"a shorter timeout moved end_at from {before} to {after}")

    async def connect_by_id(self):
        """Another process does it, which knows the id and no more."""
        other = await settle(self.Sandbox.connect(self.connects_to or self.sandbox.sandbox_id))
        equal((await settle(other.commands.run("echo again"))).stdout, "again\n", "stdout")

    async def pause(self):
        await settle(self.sandbox.files.write(f"{self.directory}/kept", "kept"))
        equal(await settle(self.sandbox.pause()), True, "pause")
        equal((await settle(self.sandbox.get_info())).state.value, "paused", "state")
        equal(await settle(self.sandbox.is_running()), False, "is_running")
        self.paused = True

    paused = False

    async def resume(self):
        if not self.paused:  # then ROCK itself has stopped it
            say({"stop": self.sandbox.sandbox_id})
            hear()
        resumed = await settle(self.Sandbox.connect(self.sandbox.sandbox_id, timeout=600))
        equal(await settle(resumed.is_running()), True, "is_running")
        equal(await settle(resumed.files.read(f"{self.directory}/kept")), "kept", "file")

    async def kill(self):
        equal(await settle(self.sandbox.kill()), True, "kill")
        equal(await settle(self.Sandbox.kill(self.sandbox.sandbox_id)), False, "second kill")

    # Commands

    async def run(self):
        with_env = await settle(self.sandbox.commands.run('echo "$GIVEN $HERE"; echo err >&2', envs={"HERE": "and here"}, cwd="/tmp"))
        equal((with_env.stdout, with_env.stderr, with_env.exit_code), ("at create and here\n", "err\n", 0), "result")

    async def run_background(self):
        handle = await settle(self.sandbox.commands.run("sleep 0.1; echo later", background=True))
        equal((await settle(handle.wait())).stdout, "later\n", "stdout")

    async def disconnect(self):
        handle = await settle(self.sandbox.commands.run("sleep 1", background=True))
        await settle(handle.disconnect())
        equal((await settle(self.sandbox.commands.run("echo on"))).stdout, "on\n", "stdout of the next command")

    async def run_as_user(self):
        equal((await settle(self.sandbox.commands.run("echo as", user="root"))).stdout, "as\n", "stdout")

    async def run_unlimited(self):
        equal((await settle(self.sandbox.commands.run("echo long", timeout=0))).stdout, "long\n", "stdout")

    async def commands_list(self):
        await settle(self.sandbox.commands.list())

    async def commands_kill(self):
        handle = await settle(self.sandbox.commands.run("sleep 3", background=True))
        try:
            equal(await settle(self.sandbox.commands.kill(handle.pid)), True, "kill")
        finally:
            await settle(handle.disconnect())

    async def commands_connect(self):
        handle = await settle(self.sandbox.commands.run("sleep 0.3; echo found", background=True))
        await settle(handle.disconnect())
        again = await settle(self.sandbox.commands.connect(handle.pid, timeout=10))
        equal((await settle(again.wait())).stdout, "found\n", "stdout")

    async def send_stdin(self):
        handle = await settle(self.sandbox.commands.run("read -r line; echo got $line", background=True, stdin=True, timeout=10))
        await settle(self.sandbox.commands.send_stdin(handle.pid, "this\n"))
        equal((await settle(handle.wait())).stdout, "got this\n", "stdout")

    async def pty(self):
        size = e2b.PtySize(rows=24, cols=80)
        if self.api == "sync":
            handle = self.sandbox.pty.create(size=size, timeout=10)
        else:
            handle = await self.sandbox.pty.create(size=size, on_data=lambda data: None, timeout=10)
        await settle(self.sandbox.pty.send_stdin(handle.pid, b"exit\n"))
        await settle(handle.wait())

    # Files

    async def make_dir(self):
        equal(await settle(self.sandbox.files.make_dir(f"{self.directory}/deep/er")), True, "first")
        equal(await settle(self.sandbox.files.make_dir(f"{self.directory}/deep/er")), False, "second")

    async def write(self):
        written = await settle(self.sandbox.files.write(f"{self.directory}/a + b", "żółw"))
        equal(written.path, f"{self.directory}/a + b", "path")

    async def write_files(self):
        files = [{"path": f"{self.directory}/{n}", "data": f"file {n}"} for n in range(3)]
        equal(len(await settle(self.sandbox.files.write_files(files))), 3, "written")

    async def read_text(self):
        equal(await settle(self.sandbox.files.read(f"{self.directory}/a + b")), "żółw", "text")

    async def read_bytes(self):
        equal(bytes(await settle(self.sandbox.files.read(f"{self.directory}/1", format="bytes"))), b"file 1", "bytes")

    async def read_stream(self):
        stream = await settle(self.sandbox.files.read(f"{self.directory}/2", format="stream"))
        got = b"".join([chunk async for chunk in stream] if hasattr(stream, "__aiter__") else list(stream))
        equal(got, b"file 2", "bytes")

    async def files_list(self):
        names = {entry.name for entry in await settle(self.sandbox.files.list(self.directory))}
        holds({"a + b", "0", "1", "2", "deep"} <= names, f"names are {names}")

    async def files_get_info(self):
        info = await settle(self.sandbox.files.get_info(f"{self.directory}/1"))
        equal((info.name, info.size), ("1", 6), "(name, size)")

    async def exists(self):
        equal(await settle(self.sandbox.files.exists(f"{self.directory}/1")), True, "exists")
        equal(await settle(self.sandbox.files.exists(f"{self.directory}/absent")), False, "absent exists")

    async def rename(self):
        await settle(self.sandbox.files.rename(f"{self.directory}/0", f"{self.directory}/zero"))
        equal(await settle(self.sandbox.files.read(f"{self.directory}/zero")), "file 0", "text")

    async def remove(self):
        await settle(self.sandbox.files.remove(f"{self.directory}/2"))
        equal(await settle(self.sandbox.files.exists(f"{self.directory}/2")), False, "exists")

    async def watch_dir(self):
        events = []
        if self.api == "sync":
            handle = self.sandbox.files.watch_dir(self.directory)
        else:
            handle = await self.sandbox.files.watch_dir(self.directory, on_event=events.append)
        await settle(self.sandbox.files.write(f"{self.directory}/watched", "x"))
        deadline = time.monotonic() + 10
        while not any(event.name == "watched" for event in events):
            holds(time.monotonic() < deadline, f"no event, only {events}")
            if self.api == "sync":
                events += handle.get_new_events()
            else:
                await asyncio.sleep(0.02)
        await settle(handle.stop())

    async def write_metadata(self):
        await settle(self.sandbox.files.write(f"{self.directory}/noted", "x", metadata={"color": "red"}))

    async def write_gzip(self):
        await settle(self.sandbox.files.write(f"{self.directory}/zipped", "text " * 100, gzip=True))
        equal(await settle(self.sandbox.files.read(f"{self.directory}/zipped", gzip=True)), "text " * 100, "text")

    # git.*, which runs git by commands.run()

    async def git(self):
        """Without a timeout the helpers ask for a command that may run for ever, which ROCK's own data plane has not."""
        git, path, limit = self.sandbox.git, f"{self.directory}/repo", {"timeout": 30}
        await settle(git.init(path, initial_branch="main", **limit))
        await settle(git.configure_user("Some Body", "some@body.test", scope="local", path=path, **limit))
        await settle(self.sandbox.files.write(f"{path}/file", "x"))
        await settle(git.add(path, **limit))
        await settle(git.commit(path, "First", **limit))
        status = await settle(git.status(path, **limit))
        equal((status.current_branch, status.is_clean), ("main", True), "(branch, clean)")
        await settle(git.clone(path, f"{self.directory}/clone", **limit))
        equal((await settle(git.branches(f"{self.directory}/clone", **limit))).current_branch, "main", "branch of the clone")

    # Hosts of sandboxes

    def url(self, port, path):
        host = self.sandbox.get_host(port)
        if host.endswith(".e2b.app"):
            raise Elsewhere
        return ("https://" if "E2B_DOMAIN" in os.environ else "http://") + host + path

    async def get_host_http(self):
        equal(fetch(self.url(MAPPED, "/hello?a=b")), b"hello from inside", "body")

    async def get_host_tunnel(self):
        equal(fetch(self.url(SERVER, "/hello?a=b")), b"hello from inside", "body")

    async def get_host_sse(self):
        """The second event is sent when the first was read: an answer that is held back never ends."""
        with urllib.request.urlopen(self.url(SERVER, f"/events?key={self.run_id}"), timeout=20) as answer:
            equal(answer.headers["Content-Type"], "text/event-stream", "Content-Type")
            equal(answer.readline(), b"data: first\n", "first event")
            fetch(self.url(SERVER, f"/seen?key={self.run_id}"))
            equal(answer.read(), b"\ndata: second\n\n", "what follows")

    async def get_mcp_url(self):
        url = self.sandbox.get_mcp_url()
        equal(fetch(self.url(MCP, "/mcp")), b"hello from inside", "body")
        holds(url.endswith("/mcp"), url)

    async def code_interpreter_host(self):
        equal(fetch(self.url(INTERPRETER, "/execute"), data=b"{}"), b"hello from inside", "body")

    async def download(self, seconds):
        """The signature has both characters of base64 that mean something in a URL."""
        for number in itertools.count():
            path = f"{self.directory}/ż + %2B {number}"
            url = self.sandbox.download_url(path, use_signature_expiration=seconds)
            signature = url.partition("signature=")[2].partition("&")[0]
            if not signature or "%2B" in signature and "%2F" in signature:
                break
        await settle(self.sandbox.files.write(path, "żółw"))
        equal(fetch(url), "żółw".encode(), "body")

    async def upload(self, seconds):
        path = f"{self.directory}/ż by url + {seconds}"
        fetch(self.sandbox.upload_url(path, use_signature_expiration=seconds), data=MULTIPART, kind="multipart/form-data; boundary=limit")
        equal(await settle(self.sandbox.files.read(path)), "by form", "text")

    async def download_url(self):
        await self.download(None)

    async def download_url_expiring(self):
        await self.download(60)

    async def upload_url(self):
        await self.upload(None)

    async def upload_url_expiring(self):
        await self.upload(60)


MULTIPART = b'--limit\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nby form\r\n--limit--\r\n'


def status(url, headers={}):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def fetch(url, data=None, kind="application/json"):
    """A request without any SDK."""
    request = urllib.request.Request(url, data=data, headers={"Content-Type": kind} if data else {})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        raise Refused(error.code, error.read().decode()) from error


# In this order: what needs files after what makes them. pause and resume come after everything, since they end the processes.
CALLS = """
create_plain create_auto_pause create_no_internet create_network create_private create_volume
get_info is_running set_timeout list_metadata list_all list_state list_paged list_paused connect connect_by_id
run run_background disconnect run_as_user run_unlimited commands_list commands_kill commands_connect send_stdin pty
make_dir write write_files read_text read_bytes read_stream files_list files_get_info exists
rename remove watch_dir write_metadata write_gzip git
get_host_http get_host_tunnel get_host_sse get_mcp_url code_interpreter_host
download_url download_url_expiring upload_url upload_url_expiring
""".split()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--api", choices=["sync", "async"], required=True)
    parser.add_argument("--connect", metavar="ID", help="make this one call, from a process that has not made the sandbox")
    arguments = parser.parse_args()
    program = Program(arguments.api, arguments.connect)
    if program.api == "sync":
        without_event_loop(program.go())
    else:
        asyncio.run(program.go())


if __name__ == "__main__":
    main()
