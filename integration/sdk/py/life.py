"""The whole life of a sandbox, through an unmodified E2B SDK.

Reads E2B_API_URL, E2B_SANDBOX_URL, E2B_API_KEY (all three by the SDK itself), E2B_TEMPLATE_ID, and for HTTPS with a
private CA SSL_CERT_FILE, which httpx, httpcore and pyqwest (the newest SDK's stack) all honour. The same statements
run against the synchronous and the asynchronous API; where the two differ, both spellings stand side by side.

Usage: life.py --api sync|async [--profile rock|envd] [--quick]

--profile says what the deployment can do. rock: command output comes at the end; no stdin, PTY, process list, rename,
remove, watch. envd: everything. --quick shrinks the large transfers (64 MiB file to 4 MiB, 20 MiB output to 2 MiB).
"""

import argparse
import asyncio
import hashlib
import os
import time
import uuid

import e2b

from everything import everything_envd_can
from report import Report, equal, holds, raising, settle, without_event_loop

MIB = 1024 * 1024

AWKWARD_METADATA = {
    "space": "two words",
    "ampersand": "a&b",
    "percent": "100%25",
    "equals": "k=v=w",
    "non-ascii": "żółw 東京",
    "a key": "with a space",
}

AWKWARD_NAMES = ["plain.txt", "two words.txt", "a+b.txt", "100%25 %41.txt", "żółw-東京.txt"]


class Life:
    def __init__(self, arguments):
        self.arguments = arguments
        self.report = Report()
        self.sandbox_class = e2b.Sandbox if arguments.api == "sync" else e2b.AsyncSandbox
        self.run_id = uuid.uuid4().hex
        self.directory = f"/home/user/life-{self.run_id}"

    async def live(self):
        sandbox = None
        with self.report.check("create") as remarks:
            sandbox = await settle(
                self.sandbox_class.create(
                    template=os.environ["E2B_TEMPLATE_ID"],
                    timeout=300,
                    metadata={"life": self.run_id, **AWKWARD_METADATA},
                    envs={"FROM_CREATE": "outer value", "OVERRIDDEN": "outer"},
                    request_timeout=180,
                )
            )
            holds(sandbox.sandbox_id, "the sandbox has no id")
            remarks.append(sandbox.sandbox_id)
        if sandbox is None:
            self.report.end()
        try:
            await self.inspect(sandbox)
            await self.commands(sandbox)
            await self.files(sandbox)
            if self.arguments.profile == "envd":
                await everything_envd_can(self.report, sandbox, self.arguments.api, self.directory)
            await self.lifetime(sandbox)
        finally:
            await self.death(sandbox)
        self.report.end()

    async def inspect(self, sandbox):
        with self.report.check("get_info"):
            info = await settle(sandbox.get_info())
            equal(info.sandbox_id, sandbox.sandbox_id, "sandbox_id")
            equal(info.state, e2b.SandboxState.RUNNING, "state")
            for key, value in {"life": self.run_id, **AWKWARD_METADATA}.items():
                equal(info.metadata.get(key), value, f"metadata[{key!r}]")
            holds(info.started_at < info.end_at, "end_at is not after started_at")
        with self.report.check("get_info_static"):
            info = await settle(self.sandbox_class.get_info(sandbox.sandbox_id))
            equal(info.sandbox_id, sandbox.sandbox_id, "sandbox_id")
        with self.report.check("is_running"):
            equal(await settle(sandbox.is_running()), True, "is_running")
        with self.report.check("list_by_metadata"):
            for key, value in AWKWARD_METADATA.items():
                holds(
                    sandbox.sandbox_id in await self.listed({"life": self.run_id, key: value}),
                    f"not listed by {key}={value!r}",
                )
            equal(await self.listed({"life": self.run_id, **AWKWARD_METADATA}), [sandbox.sandbox_id], "listed by all pairs")
        with self.report.check("list_no_match"):
            equal(await self.listed({"life": self.run_id, "space": "other words"}), [], "listed")

    async def listed(self, metadata):
        paginator = self.sandbox_class.list(query=e2b.SandboxQuery(metadata=metadata))
        found = []
        while paginator.has_next:
            found += [item.sandbox_id for item in await settle(paginator.next_items())]
        return found

    async def commands(self, sandbox):
        run = sandbox.commands.run
        with self.report.check("run"):
            result = await settle(run("echo out; echo err >&2"))
            equal((result.stdout, result.stderr, result.exit_code), ("out\n", "err\n", 0), "result")
        with self.report.check("run_non_zero"):
            with raising(e2b.CommandExitException) as caught:
                await settle(run("echo partial; echo broken >&2; exit 7"))
            got = caught[0]
            equal((got.stdout, got.stderr, got.exit_code), ("partial\n", "broken\n", 7), "exception")
        with self.report.check("run_non_ascii"):
            result = await settle(run("printf '%s' 'żółw 東京 🐢'"))
            equal(result.stdout, "żółw 東京 🐢", "stdout")
        with self.report.check("run_envs"):
            result = await settle(
                run('printf "%s|%s|%s" "$FROM_CREATE" "$OVERRIDDEN" "$ONLY_HERE"', envs={"OVERRIDDEN": "inner", "ONLY_HERE": "a=b c"})
            )
            equal(result.stdout, "outer value|inner|a=b c", "stdout")
        with self.report.check("run_cwd"):
            await settle(sandbox.files.write(f"{self.directory}/cwd/marker", "found by relative name"))
            result = await settle(run("cat marker", cwd=f"{self.directory}/cwd"))
            equal(result.stdout, "found by relative name", "stdout")
        with self.report.check("run_cwd_missing"):
            with raising(e2b.InvalidArgumentException):
                await settle(run("pwd", cwd=f"{self.directory}/absent"))
        with self.report.check("run_timeout") as remarks:
            started = time.monotonic()
            with raising(e2b.TimeoutException):
                await settle(run("sleep 30", timeout=3))
            took = time.monotonic() - started
            remarks.append(f"{took:.1f} s")
            holds(2.5 <= took <= 10, f"a 3 s timeout came after {took:.1f} s")
        with self.report.check("run_background"):
            handle = await settle(run("sleep 0.5; echo later", background=True))
            holds(handle.pid > 0, f"pid is {handle.pid}")
            result = await settle(handle.wait())
            equal((result.stdout, result.exit_code), ("later\n", 0), "result")
        with self.report.check("run_background_non_zero"):
            handle = await settle(run("echo last words; exit 3", background=True))
            with raising(e2b.CommandExitException) as caught:
                await settle(handle.wait())
            equal((caught[0].stdout, caught[0].exit_code), ("last words\n", 3), "exception")
        with self.report.check("run_disconnect"):
            handle = await settle(run("sleep 2", background=True))
            await settle(handle.disconnect())
            equal((await settle(run("echo still here"))).stdout, "still here\n", "stdout of the next command")
        size = (2 if self.arguments.quick else 20) * MIB
        with self.report.check("run_large_output") as remarks:
            line = "0123456789abcdef" * 4 + "\n"
            pieces = []
            result = await settle(
                run(f"yes {line.strip()} | head -c {size}", on_stdout=pieces.append, timeout=60)
            )
            want = (line * (size // len(line) + 1))[:size]
            same_text(result.stdout, want, "stdout")
            same_text("".join(pieces), want, "text given to on_stdout")
            remarks.append(f"{size} bytes in {len(pieces)} pieces")

    async def files(self, sandbox):
        files, directory = sandbox.files, f"{self.directory}/files"
        with self.report.check("make_dir_twice"):
            equal(await settle(files.make_dir(f"{directory}/deep/er")), True, "first make_dir")
            equal(await settle(files.make_dir(f"{directory}/deep/er")), False, "second make_dir")
        for name in AWKWARD_NAMES:
            with self.report.check(f"files_name:{name}"):
                path = f"{directory}/{name}"
                written = await settle(files.write(path, f"text of {name}\n"))
                equal((written.name, written.path), (name, path), "written (name, path)")
                equal(await settle(files.read(path)), f"text of {name}\n", "text")
                equal(await settle(files.exists(path)), True, "exists")
                info = await settle(files.get_info(path))
                equal((info.name, info.path), (name, path), "info (name, path)")
        with self.report.check("files_list"):
            entries = {entry.name: entry for entry in await settle(files.list(directory))}
            equal(sorted(entries), sorted([*AWKWARD_NAMES, "deep"]), "names")
            equal(entries["deep"].type, e2b.FileType.DIR, "type of deep")
            equal(entries["plain.txt"].type, e2b.FileType.FILE, "type of plain.txt")
        with self.report.check("files_get_info"):
            info = await settle(files.get_info(f"{directory}/plain.txt"))
            equal((info.type, info.size), (e2b.FileType.FILE, len("text of plain.txt\n")), "(type, size)")
        with self.report.check("files_seen_by_command"):
            result = await settle(sandbox.commands.run('cat "two words.txt" "a+b.txt"', cwd=directory))
            equal(result.stdout, "text of two words.txt\ntext of a+b.txt\n", "stdout")
        with self.report.check("files_overwrite"):
            await settle(files.write(f"{directory}/plain.txt", "short"))
            equal(await settle(files.read(f"{directory}/plain.txt")), "short", "text")
        with self.report.check("files_empty"):
            for content in ("", b""):
                await settle(files.write(f"{directory}/empty", content))
                equal(await settle(files.read(f"{directory}/empty")), "", "text")
                equal(bytes(await settle(files.read(f"{directory}/empty", format="bytes"))), b"", "bytes")
            equal((await settle(files.get_info(f"{directory}/empty"))).size, 0, "size")
        with self.report.check("files_bytes"):
            content = bytes(range(256)) * 16
            await settle(files.write(f"{directory}/bytes", content))
            equal(bytes(await settle(files.read(f"{directory}/bytes", format="bytes"))), content, "bytes")
        with self.report.check("files_stream"):
            stream = await settle(files.read(f"{directory}/bytes", format="stream"))
            got = b"".join([chunk async for chunk in stream] if hasattr(stream, "__aiter__") else list(stream))
            equal(got, content, "bytes")
        size = (4 if self.arguments.quick else 64) * MIB
        with self.report.check("files_large") as remarks:
            content = os.urandom(size)
            await settle(files.write(f"{directory}/large", content, request_timeout=300))
            got = await settle(files.read(f"{directory}/large", format="bytes", request_timeout=300))
            equal(len(got), size, "length")
            equal(hashlib.sha256(got).hexdigest(), hashlib.sha256(content).hexdigest(), "SHA-256")
            remarks.append(f"{size} bytes")
        with self.report.check("write_files"):
            batch = [e2b_entry(f"{directory}/batch/{name}", f"batch {name}") for name in AWKWARD_NAMES]
            batch.append(e2b_entry(f"{directory}/batch/binary", b"\x00\xff"))
            written = await settle(files.write_files(batch))
            equal([entry.path for entry in written], [entry["path"] for entry in batch], "paths")
            for name in AWKWARD_NAMES:
                equal(await settle(files.read(f"{directory}/batch/{name}")), f"batch {name}", name)
            equal(bytes(await settle(files.read(f"{directory}/batch/binary", format="bytes"))), b"\x00\xff", "binary")
        with self.report.check("files_missing"):
            equal(await settle(files.exists(f"{directory}/absent")), False, "exists")
            with raising(e2b.FileNotFoundException):
                await settle(files.read(f"{directory}/absent"))
            with raising(e2b.FileNotFoundException):
                await settle(files.get_info(f"{directory}/absent"))
        with self.report.check("files_read_directory"):
            with raising(e2b.InvalidArgumentException):
                await settle(files.read(directory))

    async def lifetime(self, sandbox):
        with self.report.check("set_timeout"):
            before = (await settle(sandbox.get_info())).end_at
            equal(await settle(sandbox.set_timeout(1200)), None, "set_timeout")
            after = (await settle(sandbox.get_info())).end_at
            holds((after - before).total_seconds() > 600, f"end_at went from {before} to {after}")

    async def death(self, sandbox):
        with self.report.check("kill_twice"):
            equal(await settle(sandbox.kill()), True, "first kill")
            equal(await settle(sandbox.kill()), False, "second kill")
        with self.report.check("is_running_after_kill"):
            equal(await settle(sandbox.is_running()), False, "is_running")
        with self.report.check("get_info_after_kill"):
            with raising(e2b.SandboxNotFoundException):
                await settle(self.sandbox_class.get_info(sandbox.sandbox_id))


def e2b_entry(path, data):
    return {"path": path, "data": data}


def same_text(got, want, what):
    """Equality that does not print twenty megabytes when it fails."""
    equal(len(got), len(want), f"length of {what}")
    holds(got == want, f"{what} has the right length and wrong bytes")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--api", choices=["sync", "async"], required=True)
    parser.add_argument("--profile", choices=["rock", "envd"], default="rock")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    if arguments.api == "sync":
        without_event_loop(Life(arguments).live())
    else:
        asyncio.run(Life(arguments).live())


if __name__ == "__main__":
    main()
