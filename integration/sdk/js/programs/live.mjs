// How soon output arrives: the first line within 50 ms of its being printed, while the command goes on.
//
// Environment as for life.mjs; needs a deployment with the full envd protocol and a machine that is not busy.
// Usage: live.mjs

import { Sandbox } from 'e2b'
import { listen } from './everything.mjs'
import { Report, equal } from './report.mjs'

const BOUND = 50 // milliseconds

const report = new Report()
let sandbox
await report.check('create', async () => {
  sandbox = await Sandbox.create(process.env.E2B_TEMPLATE_ID, { timeoutMs: 300_000, requestTimeoutMs: 180_000 })
  // The first command of a sandbox also pays for its connection and its container's first fork.
  await sandbox.commands.run('true')
})
if (!sandbox) await report.end()
await report.check('run_live_output', async (remarks) => {
  // Scheduling noise may spoil an attempt; output that is held back spoils them all.
  for (let attempt = 0; attempt < 5; attempt++) {
    const { delay, lead } = await listen(sandbox)
    remarks.push(`after ${delay.toFixed(0)} ms, ${lead} ms before the end`)
    if (delay <= BOUND && lead >= 400) return
  }
  throw new Error('no attempt delivered the first line in time')
})
await report.check('kill', async () => equal(await sandbox.kill(), true, 'kill'))
await report.end()
