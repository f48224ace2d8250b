// What only a full envd can do: output while the command goes on, stdin, PTY, process list, rename, remove, watch.

import { setTimeout as sleep } from 'node:timers/promises'
import { CommandExitError, FilesystemEventType } from 'e2b'
import { equal, holds, raising } from './report.mjs'

export async function everythingEnvdCan(report, sandbox, home) {
  await outputWhileRunning(report, sandbox)
  await processes(report, sandbox)
  await terminal(report, sandbox)
  await movingFiles(report, sandbox, `${home}/moving`)
  await watching(report, sandbox, `${home}/watched`)
}

// Runs a command that prints the time and then goes on for a while. Resolves to how long its first line took to arrive and
// how long before the end of the call it arrived, in milliseconds. Sandbox and program share a clock in these tests.
export async function listen(sandbox) {
  const arrivals = []
  const result = await sandbox.commands.run('for i in 1 2 3; do date +%s.%N; sleep 0.4; done', {
    onStdout: (text) => void arrivals.push([Date.now(), text]),
  })
  const ended = Date.now()
  equal(result.stdout.trim().split('\n').length, 3, 'lines')
  const [arrived, text] = arrivals[0]
  return { delay: arrived - 1000 * Number(text.trim().split(/\s/)[0]), lead: ended - arrived }
}

// The first line arrives before the command ends; live.mjs asks for more, on a machine that is less busy.
async function outputWhileRunning(report, sandbox) {
  await report.check('run_output_while_running', async (remarks) => {
    const { delay, lead } = await listen(sandbox)
    remarks.push(`after ${delay.toFixed(0)} ms, ${lead} ms before the end`)
    holds(lead >= 400, `the first of three lines, 0.4 s apart, came ${lead} ms before the end`)
  })
}

async function processes(report, sandbox) {
  const { commands } = sandbox
  await report.check('stdin', async () => {
    const handle = await commands.run('read -r line; echo "got $line"', { background: true, stdin: true })
    await commands.sendStdin(handle.pid, 'żółw by stdin\n')
    equal((await handle.wait()).stdout, 'got żółw by stdin\n', 'stdout')
  })
  let handle
  await report.check('commands_list', async () => {
    handle = await commands.run('sleep 60', { background: true, timeoutMs: 0 })
    const listed = (await commands.list()).find((process) => process.pid === handle.pid)
    holds(listed, `pid ${handle.pid} is not listed`)
    holds(listed.args.join(' ').includes('sleep 60'), `args are ${listed.args}`)
  })
  await report.check('commands_kill', async () => {
    equal(await commands.kill(handle.pid), true, 'first kill')
    const error = await raising(CommandExitError, () => handle.wait())
    holds(error.exitCode !== 0, 'a killed command exits with 0')
    equal(await commands.kill(handle.pid), false, 'second kill')
  })
  await report.check('commands_connect', async () => {
    const first = await commands.run('read -r line; echo "heard $line"', {
      background: true,
      stdin: true,
      timeoutMs: 30_000,
    })
    await first.disconnect()
    const second = await commands.connect(first.pid, { timeoutMs: 30_000 })
    equal(second.pid, first.pid, 'pid')
    await commands.sendStdin(second.pid, 'after reconnect\n')
    equal((await second.wait()).stdout, 'heard after reconnect\n', 'stdout')
  })
}

async function terminal(report, sandbox) {
  await report.check('pty', async () => {
    const seen = []
    const handle = await sandbox.pty.create({
      rows: 24,
      cols: 91,
      onData: (piece) => void seen.push(piece),
      timeoutMs: 30_000,
    })
    await sandbox.pty.resize(handle.pid, { rows: 25, cols: 93 })
    await sandbox.pty.sendInput(handle.pid, new TextEncoder().encode("stty size; echo mark''er; exit\n"))
    await handle.wait()
    const text = Buffer.concat(seen).toString()
    holds(text.includes('marker'), `no marker in ${JSON.stringify(text)}`)
    holds(text.includes('25 93'), `no '25 93' in ${JSON.stringify(text)}`)
  })
}

async function movingFiles(report, sandbox, directory) {
  const { files } = sandbox
  await report.check('files_rename', async () => {
    await files.write(`${directory}/old name`, 'moved')
    const moved = await files.rename(`${directory}/old name`, `${directory}/new+name`)
    equal([moved.name, moved.path], ['new+name', `${directory}/new+name`], '[name, path]')
    equal(await files.read(`${directory}/new+name`), 'moved', 'text')
    equal(await files.exists(`${directory}/old name`), false, 'old name exists')
  })
  await report.check('files_remove', async () => {
    await files.remove(`${directory}/new+name`)
    equal(await files.exists(`${directory}/new+name`), false, 'exists')
    await files.remove(directory)
    equal(await files.exists(directory), false, 'directory exists')
  })
}

async function watching(report, sandbox, directory) {
  await report.check('watch_dir', async () => {
    await sandbox.files.makeDir(directory)
    const events = []
    const handle = await sandbox.files.watchDir(directory, (event) => void events.push(event))
    await sandbox.files.write(`${directory}/watched file`, 'x')
    const about = () => events.filter((event) => event.name === 'watched file').map((event) => event.type)
    for (const deadline = Date.now() + 10_000; about().length === 0; await sleep(50)) {
      holds(Date.now() < deadline, `no event about the file within 10 s, only ${JSON.stringify(events)}`)
    }
    const wanted = [FilesystemEventType.CREATE, FilesystemEventType.WRITE]
    holds(about().some((type) => wanted.includes(type)), `types are ${about()}`)
    await handle.stop()
  })
}
