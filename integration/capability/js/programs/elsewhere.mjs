// The calls of the SDK that ROCK has nothing for. What asks whether something is there, or deletes it, wants to hear yes: a no would
// be the answer of a server that keeps none at all.

import * as e2b from 'e2b'
import { Absent, equal } from './told.mjs'

const absentId = 'none'

// The SDK's class of that name.
function of(name) {
  if (!e2b[name]) throw new Absent()
  return e2b[name]
}

// sandbox returns the one of most calls, others are ended with the program.
export const elsewhere = (sandbox, others) => ({
  create_mcp: async () => void others.push(await e2b.Sandbox.create({ mcp: { duckduckgo: {} }, requestTimeoutMs: 60_000 })),
  get_metrics: () => sandbox().getMetrics(),
  async fork() {
    if (!sandbox().fork) throw new Absent()
    others.push(...(await sandbox().fork()))
  },
  update_network: () => sandbox().updateNetwork({ denyOut: ['8.8.8.8/32'] }),
  create_snapshot: () => sandbox().createSnapshot(),
  list_snapshots: () => e2b.Sandbox.listSnapshots().nextItems(),
  delete_snapshot: async () => equal(await e2b.Sandbox.deleteSnapshot(absentId), true, 'delete'),
  template_build: () => of('Template').build(e2b.Template().fromImage('python:3.11'), 'some-template'),
  template_exists: async () => equal(await of('Template').exists('some-template'), true, 'exists'),
  template_get_tags: () => of('Template').getTags('some-template'),
  template_assign_tags: () => of('Template').assignTags('some-template:one', 'two'),
  template_remove_tags: () => of('Template').removeTags('some-template', 'two'),
  volume_create: () => of('Volume').create('some-volume'),
  volume_list: () => of('Volume').list(),
  volume_connect: () => of('Volume').connect(absentId),
  volume_get_info: () => of('Volume').getInfo(absentId),
  volume_destroy: async () => equal(await of('Volume').destroy(absentId), true, 'destroy'),
  secret_create: async () => of('Secret').create('SOME_SECRET', 'value'),
  secret_list: async () => of('Secret').list().nextItems(),
  secret_get_info: async () => of('Secret').getInfo(absentId),
  secret_update: async () => of('Secret').update(absentId, 'value'),
  secret_destroy: async () => equal(await of('Secret').destroy(absentId), true, 'destroy'),
})
