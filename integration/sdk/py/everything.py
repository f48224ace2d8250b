"""What only a full envd can do: output while the command goes on, stdin, PTY, process list, rename, remove, watch."""

import asyncio
import time

import e2b

from report import equal, holds, raising, settle


async def everything_envd_can(report, sandbox, api, directory):
    await output_while_running(report, sandbox)
    await processes(report, sandbox)
    await terminal(report, sandbox, api)
    await moving_files(report, sandbox, f"{directory}/moving")
    await watching(report, sandbox, api, f"{directory}/watched")


async def listen(sandbox):
    """Runs a command that prints the time and then goes on for a while.

    Returns how long its first line took to arrive and how long before the end of the call it arrived, in seconds.
    Sandbox and program share a clock in these tests.
    """
    arrivals = []
    result = await settle(
        sandbox.commands.run(
            "for i in 1 2 3; do date +%s.%N; sleep 0.4; done",
            on_stdout=lambda text: arrivals.append((time.time(), text)),
        )
    )
    ended = time.time()
    equal(len(result.stdout.split()), 3, "lines")
    arrived, text = arrivals[0]
    return arrived - float(text.split()[0]), ended - arrived


async def output_while_running(report, sandbox):
    """The first line arrives before the command ends; live.py asks for more, on a machine that is less busy."""
    with report.check("run_output_while_running") as remarks:
        delay, lead = await listen(sandbox)
        remarks.append(f"after {delay * 1000:.0f} ms, {lead * 1000:.0f} ms before the end")
        holds(lead >= 0.4, f"the first of three lines, 0.4 s apart, came {lead:.3f} s before the end")


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
