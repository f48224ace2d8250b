// A command that prints a number every 200 ms, through an unmodified E2B SDK, until it is told to stop or fails. It
// speaks as ticks.py does. Must lie below a directory with e2b in its node_modules.

import { createInterface } from 'node:readline'
import { Sandbox } from 'e2b'

const COMMAND = 'cd /tmp; i=0; while [ ! -e stop ]; do echo $i; i=$((i+1)); sleep 0.2; done'

const tell = (event) => console.log(JSON.stringify(event))
let output = ''
try {
  const sandbox = await Sandbox.create(process.env.E2B_TEMPLATE_ID, { timeoutMs: 300_000, requestTimeoutMs: 180_000 })
  createInterface({ input: process.stdin }).once('line', () => sandbox.files.write('/tmp/stop', ''))
  await sandbox.commands.run(COMMAND, {
    timeoutMs: 0,
    onStdout: (text) => {
      if (!output) tell({ event: 'ticking' })
      output += text
    },
  })
  const numbers = output.split(/\s+/).filter(Boolean).map(Number)
  if (!numbers.every((n, i) => n === i)) throw new Error(`numbers are missing or came twice: ${numbers}`)
  tell({ event: 'end', ticks: numbers.length })
} catch (e) {
  tell({ event: 'error', class: e.constructor.name, message: String(e.message) })
}
process.exit()
