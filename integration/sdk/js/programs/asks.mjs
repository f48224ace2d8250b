// Does what it is asked, line by line. Asks and answers are those of the Python program of this name.
// Environment as for life.mjs. Usage: asks.mjs

import { createInterface } from 'node:readline'
import { Sandbox } from 'e2b'

const created = new Map()

const described = (item) => [
  item.state, item.templateId, item.cpuCount, item.memoryMB, item.metadata, item.startedAt.getFullYear() > 2000, item.endAt > item.startedAt,
]

const calls = {
  create: async (ask, opts) => {
    const sandbox = await Sandbox.create(process.env.E2B_TEMPLATE_ID, { ...opts, timeoutMs: 300_000, metadata: ask.metadata })
    created.set(sandbox.sandboxId, sandbox)
    return sandbox.sandboxId
  },
  run: async (ask) => (await created.get(ask.id).commands.run(ask.command)).stdout,
  list: async (ask, opts) => {
    const query = { ...(ask.metadata && { metadata: ask.metadata }), ...(ask.state && { state: ask.state }) }
    const paginator = Sandbox.list({
      ...opts,
      ...(Object.keys(query).length && { query }),
      ...(ask.limit && { limit: ask.limit }),
    })
    const said = { ids: [], pages: 0, first: null }
    while (said.pages === 0 || paginator.hasNext) {
      const items = await paginator.nextItems()
      said.ids.push(...items.map((item) => item.sandboxId))
      said.pages++
      if (items.length && !said.first) said.first = described(items[0])
    }
    return said
  },
  kill: (ask, opts) => Sandbox.kill(ask.id, opts),
}

for await (const line of createInterface({ input: process.stdin })) {
  const ask = JSON.parse(line)
  const opts = { apiKey: ask.key, ...(ask.cluster && { headers: { 'X-Cluster': ask.cluster }, apiHeaders: { 'X-Cluster': ask.cluster } }) }
  let said
  try {
    said = { value: (await calls[ask.do](ask, opts)) ?? null }
  } catch (error) {
    said = { class: error?.constructor?.name, text: String(error?.message) }
  }
  await new Promise((written) => process.stdout.write(JSON.stringify(said) + '\n', written))
}
process.exit(0)
