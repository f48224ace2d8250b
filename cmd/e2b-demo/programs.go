package main

// programs are to be pasted after the export lines. With a domain they also
// start a web server in the sandbox and look at it from outside.
func programs(o options) string {
	python, javaScript := "", ""
	if o.domain != "" {
		python, javaScript = pythonLook, javaScriptLook
	}
	return pythonBegin + python + pythonEnd + "\n" + javaScriptBegin + javaScript + javaScriptEnd
}

const (
	pythonBegin = `Python (pip install e2b==2.34.0):

import os; from e2b import Sandbox
sandbox = Sandbox.create(os.environ["E2B_TEMPLATE_ID"], metadata={"from": "demo"})
print(sandbox.commands.run("echo hello from $(uname -s)").stdout)
sandbox.files.write("hello.txt", "hello"); print(sandbox.files.read("hello.txt"))
`
	pythonLook = `sandbox.commands.run("python3 -m http.server 8042 --bind 127.0.0.1 >server.log 2>&1 &")
from urllib.request import urlopen; page = "https://" + sandbox.get_host(8042) + "/hello.txt"
print(page, urlopen(page).read().decode())
`
	pythonEnd = `print("killed:", sandbox.kill())
`

	javaScriptBegin = `JavaScript (npm install e2b; save as demo.mjs):

import { Sandbox } from 'e2b'
const sandbox = await Sandbox.create(process.env.E2B_TEMPLATE_ID, { metadata: { from: 'demo' } })
console.log((await sandbox.commands.run('echo hello from $(uname -s)')).stdout)
await sandbox.files.write('hello.txt', 'hello'); console.log(await sandbox.files.read('hello.txt'))
`
	javaScriptLook = `await sandbox.commands.run('python3 -m http.server 8043 --bind 127.0.0.1 >server.log 2>&1 &')
const page = 'https://' + sandbox.getHost(8043) + '/hello.txt'
console.log(page, await (await fetch(page)).text())
`
	javaScriptEnd = `console.log('killed:', await sandbox.kill())
`
)
