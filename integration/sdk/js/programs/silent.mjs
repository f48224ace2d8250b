// A command that says nothing for a long time and then one word; only keepalives keep its stream alive.
//
// Environment as for life.mjs. Usage: silent.mjs [--seconds 180] [--timeout 0]
//
// --timeout is the command's own limit in seconds, 0 for none; a ROCK deployment wants one of at most 60.

import { parseArgs } from 'node:util'
import { Sandbox } from 'e2b'
import { Report, equal, holds } from './report.mjs'

const { values: options } = parseArgs({
  options: { seconds: { type: 'string', default: '180' }, timeout: { type: 'string', default: '0' } },
})
const seconds = Number(options.seconds)
const report = new Report()

let sandbox
await report.check('create', async () => {
  sandbox = await Sandbox.create(process.env.E2B_TEMPLATE_ID, {
    timeoutMs: (seconds + 300) * 1000,
    requestTimeoutMs: 180_000,
  })
})
if (!sandbox) await report.end()
await report.check('silent_command', async () => {
  const started = performance.now()
  const result = await sandbox.commands.run(`sleep ${seconds}; echo awake`, { timeoutMs: Number(options.timeout) * 1000 })
  const took = (performance.now() - started) / 1000
  equal([result.stdout, result.exitCode], ['awake\n', 0], 'result')
  holds(took >= seconds, `the command ended after ${took.toFixed(1)} s`)
})
await report.check('kill', async () => equal(await sandbox.kill(), true, 'kill'))
await report.end()
