// Runs commands through an unmodified E2B SDK, as told line by line, and says what became of each. The lines are those of
// commands.py; nothing waits for anything else here, so "thread" means nothing.

import { createInterface } from 'node:readline'
import { Sandbox, SandboxError, CommandExitError } from 'e2b'

const sandboxes = new Map()

const actions = {
  async create({ timeout }) {
    const sandbox = await Sandbox.create(process.env.E2B_TEMPLATE_ID, { timeoutMs: timeout * 1000, metadata: { of: 'headline' } })
    sandboxes.set(sandbox.sandboxId, sandbox)
    return { sandbox: sandbox.sandboxId }
  },
  async run({ sandbox, command, user, timeout }) {
    const result = await sandboxes.get(sandbox).commands.run(command, { user, timeoutMs: Math.round(timeout * 1000) })
    return { stdout: result.stdout, exit: result.exitCode }
  },
  async forget({ sandbox }) {
    sandboxes.delete(sandbox)
    return {}
  },
}

async function answer(order) {
  try {
    return await actions[order.do](order)
  } catch (error) {
    if (error instanceof CommandExitError) return { stdout: error.stdout, exit: error.exitCode }
    const text = String(error?.message ?? error).slice(0, 600)
    return { error: { class: error?.constructor?.name ?? typeof error, sandbox: error instanceof SandboxError, text } }
  }
}

// What nobody awaits may fail too; that must not pass for nothing.
process.on('unhandledRejection', (error) => {
  console.error('unhandled rejection:', error)
  process.exit(1)
})

const input = createInterface({ input: process.stdin })
input.on('line', async (line) => {
  const order = JSON.parse(line)
  process.stdout.write(JSON.stringify({ id: order.id, ...(await answer(order)) }) + '\n')
})
input.on('close', () => process.exit(0))
