// What each call answers when its sandbox is not there: one sandbox that never was, one that was killed.
//
// Programs decide by these classes whether to throw a sandbox away. Environment as for life.mjs. Usage: gone.mjs

import { randomUUID } from 'node:crypto'
import * as e2b from 'e2b'
import { Report, equal, holds, raising } from './report.mjs'

// The same in 2.34, 2.50 and 2.51. A stream that ends with "unavailable" before its first message is a missing
// sandbox, whatever its text; unary calls and files answer "unavailable" and 502 with the sandbox's own timeout.
const STREAM_CLASS = e2b.SandboxNotFoundError
const UNARY_CLASS = e2b.TimeoutError
const UNARY_TEXT = 'was not found'

const { Sandbox } = e2b
const report = new Report()
const never = `never-was-${randomUUID().replaceAll('-', '')}`

await report.check('get_info_unknown', () => raising(e2b.SandboxNotFoundError, () => Sandbox.getInfo(never)))
await report.check('set_timeout_unknown', () =>
  raising(e2b.SandboxNotFoundError, () => Sandbox.setTimeout(never, 600_000)))
await report.check('kill_unknown', async () => equal(await Sandbox.kill(never), false, 'kill'))

let sandbox
await report.check('create_then_kill', async () => {
  sandbox = await Sandbox.create(process.env.E2B_TEMPLATE_ID, { timeoutMs: 300_000, requestTimeoutMs: 180_000 })
  // One call of each kind while it lives, so that connections and caches are warm when it goes.
  await sandbox.commands.run('true')
  equal(await sandbox.files.exists('/tmp'), true, 'exists')
  equal(await sandbox.kill(), true, 'kill')
})
if (!sandbox) await report.end()

await report.check('get_info_killed', () => raising(e2b.SandboxNotFoundError, () => sandbox.getInfo()))
await report.check('set_timeout_killed', () => raising(e2b.SandboxNotFoundError, () => sandbox.setTimeout(600_000)))
await report.check('kill_killed', async () => equal(await sandbox.kill(), false, 'kill'))
await report.check('is_running_killed', async () => equal(await sandbox.isRunning(), false, 'isRunning'))

const streams = {
  run: () => sandbox.commands.run('true'),
  run_background: () => sandbox.commands.run('true', { background: true }),
}
const unary = {
  files_read: () => sandbox.files.read('/tmp/x'),
  files_write: () => sandbox.files.write('/tmp/x', 'y'),
  files_list: () => sandbox.files.list('/tmp'),
  files_exists: () => sandbox.files.exists('/tmp'),
  files_get_info: () => sandbox.files.getInfo('/tmp'),
  files_make_dir: () => sandbox.files.makeDir('/tmp/x'),
}
for (const [name, call] of Object.entries({ ...streams, ...unary })) {
  await report.check(`${name}_killed`, async (remarks) => {
    const error = await raising(name in streams ? STREAM_CLASS : UNARY_CLASS, call)
    remarks.push(`${error.constructor.name}: ${error.message}`)
    holds(name in streams || error.message.includes(UNARY_TEXT), `no '${UNARY_TEXT}' in '${error.message}'`)
  })
}
await report.end()
