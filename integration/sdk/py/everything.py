"""What only a full envd can do: output while the command goes on, stdin, PTY, process list, rename, remove, watch."""

import asyncio
import time

import e2b

from report import equal, holds, raising, settle


async def everything_envd_can(report, sandbox, api, directory):
    # Many programs share the machine while this one runs, so the bound only tells held-back output from live output;
    # live.py has the strict one.
    await live_output(report, sandbox, 0.3)
    await processes(report, sandbox)
    await terminal(report, sandbox, api)
    await moving_files(report, sandbox, f"{directory}/moving")
    await watching(report, sandbox, api, f"{directory}/watched")


async def live_output(report, sandbox, bound):
    """Each line arrives within bound seconds of its being printed. Sandbox and program share a clock in these tests."""
    with report.check("run_live_output") as remarks:
        # Scheduling noise may spoil one attempt; output that is held back spoils them all.
        for attempt in range(1, 4):
            delays = []
            result = await settle(
                sandbox.commands.run(
                    "for i in 1 2 3; do date +%s.%N; sleep 0.4; done",
                    on_stdout=lambda text: delays.append(time.time() - float(text.split()[0])),
                )
            )
            equal(len(result.stdout.split()), 3, "lines")
            remarks.append(f"attempt {attempt}: " + ", ".join(f"{delay * 1000:.0f} ms" for delay in delays))
            if len(delays) == 3 and max(delays) <= bound:
                return
        raise AssertionError(f"no attempt delivered each line within {bound * 1000:.0f} ms of its being printed")


async def processes(report, sandbox):
    commands = sandbox.commands
    with report.check("stdin"):
        handle = await settle(commands.run('read -r line; echo "got $line"', background=True, stdin=True))
        await settle(commands.send_stdin(handle.pid, "żółw by stdin\n"))
        equal((await settle(handle.wait())).stdout, "got żółw by stdin\n", "stdout")
    with report.check("commands_list"):
        handle = await settle(commands.run("sleep 60", background=True, timeout=0))
        listed = {process.pid: process for process in await settle(commands.list())}
        holds(handle.pid in listed, f"pid {handle.pid} is not among {sorted(listed)}")
        holds("sleep 60" in " ".join(listed[handle.pid].args), f"args are {listed[handle.pid].args}")
    with report.check("commands_kill"):
        equal(await settle(commands.kill(handle.pid)), True, "first kill")
        with raising(e2b.CommandExitException) as caught:
            await settle(handle.wait())
        holds(caught[0].exit_code != 0, "a killed command exits with 0")
        equal(await settle(commands.kill(handle.pid)), False, "second kill")
    with report.check("commands_connect"):
        first = await settle(
            commands.run('read -r line; echo "heard $line"', background=True, stdin=True, timeout=30)
        )
        await settle(first.disconnect())
        second = await settle(commands.connect(first.pid, timeout=30))
        equal(second.pid, first.pid, "pid")
        await settle(commands.send_stdin(second.pid, "after reconnect\n"))
        equal((await settle(second.wait())).stdout, "heard after reconnect\n", "stdout")


async def terminal(report, sandbox, api):
    with report.check("pty"):
        size, seen = e2b.PtySize(rows=24, cols=91), []
        if api == "sync":
            handle = sandbox.pty.create(size=size, timeout=30)
        else:
            handle = await sandbox.pty.create(size=size, on_data=seen.append, timeout=30)
        await settle(sandbox.pty.resize(handle.pid, e2b.PtySize(rows=25, cols=93)))
        await settle(sandbox.pty.send_stdin(handle.pid, b"stty size; echo mark''er; exit\n"))
        if api == "sync":
            handle.wait(on_pty=seen.append)
        else:
            await handle.wait()
        text = b"".join(bytes(piece) for piece in seen).decode()
        holds("marker" in text, f"no marker in {text!r}")
        holds("25 93" in text, f"no '25 93' in {text!r}")


async def moving_files(report, sandbox, directory):
    files = sandbox.files
    with report.check("files_rename"):
        await settle(files.write(f"{directory}/old name", "moved"))
        moved = await settle(files.rename(f"{directory}/old name", f"{directory}/new+name"))
        equal((moved.name, moved.path), ("new+name", f"{directory}/new+name"), "(name, path)")
        equal(await settle(files.read(f"{directory}/new+name")), "moved", "text")
        equal(await settle(files.exists(f"{directory}/old name")), False, "old name exists")
    with report.check("files_remove"):
        await settle(files.remove(f"{directory}/new+name"))
        equal(await settle(files.exists(f"{directory}/new+name")), False, "exists")
        await settle(files.remove(directory))
        equal(await settle(files.exists(directory)), False, "directory exists")


async def watching(report, sandbox, api, directory):
    with report.check("watch_dir"):
        await settle(sandbox.files.make_dir(directory))
        events = []
        if api == "sync":
            handle = sandbox.files.watch_dir(directory)
        else:
            handle = await sandbox.files.watch_dir(directory, on_event=events.append)
        await settle(sandbox.files.write(f"{directory}/watched file", "x"))
        deadline = time.monotonic() + 10
        while not any(event.name == "watched file" for event in events):
            holds(time.monotonic() < deadline, f"no event about the file within 10 s, only {events}")
            if api == "sync":
                events += handle.get_new_events()
                time.sleep(0.05)
            else:
                await asyncio.sleep(0.05)
        kinds = {event.type for event in events if event.name == "watched file"}
        holds(kinds & {e2b.FilesystemEventType.CREATE, e2b.FilesystemEventType.WRITE}, f"kinds are {kinds}")
        await settle(handle.stop())
