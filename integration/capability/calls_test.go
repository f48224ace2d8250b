package capability

// call is one call of the SDKs.
type call struct {
	// Name is what the programs call it; a subtest has this name.
	Name string
	// Text is how a Python program writes it, as docs/compatibility.md shows it.
	Text string
}

// area is a part of the table.
type area struct {
	Name  string
	Calls []call
}

// areas are all calls. They are listed here and not taken from the programs, so that a call cannot vanish from one of them unseen.
var areas = []area{
	{"Lifecycle", []call{
		{"create", "Sandbox.create(template, timeout, metadata, envs)"},
		{"create_plain", "Sandbox.create(template)"},
		{"create_auto_pause", `Sandbox.create(lifecycle={"on_timeout": "pause"})`},
		{"create_private", `Sandbox.create(network={"allow_public_traffic": False})`},
		{"create_no_internet", "Sandbox.create(allow_internet_access=False)"},
		{"create_network", `Sandbox.create(network={"deny_out": …})`},
		{"create_volume", "Sandbox.create(volume_mounts=…)"},
		{"create_mcp", "Sandbox.create(mcp=…)"},
		{"get_info", "get_info()"},
		{"is_running", "is_running()"},
		{"set_timeout", "set_timeout()"},
		{"list_metadata", "Sandbox.list(query=SandboxQuery(metadata=…))"},
		{"list_all", "Sandbox.list()"},
		{"list_state", "Sandbox.list(query=SandboxQuery(state=[RUNNING, PAUSED], …))"},
		{"list_paged", "Sandbox.list(limit=1), page by page"},
		{"list_paused", "Sandbox.list(query=SandboxQuery(state=[PAUSED]))"},
		{"connect", "connect()"},
		{"connect_by_id", "Sandbox.connect(id), in another process"},
		{"pause", "pause()"},
		{"resume", "Sandbox.connect(id) when it is paused"},
		{"kill", "kill()"},
		{"get_metrics", "get_metrics()"},
		{"fork", "fork()"},
		{"update_network", "update_network()"},
		{"create_snapshot", "create_snapshot()"},
		{"list_snapshots", "Sandbox.list_snapshots()"},
		{"delete_snapshot", "Sandbox.delete_snapshot(id)"},
	}},
	{"Commands", []call{
		{"run", "commands.run()"},
		{"run_background", "commands.run(background=True)"},
		{"disconnect", "CommandHandle.disconnect()"},
		{"run_as_user", `commands.run(user="root")`},
		{"run_unlimited", "commands.run(timeout=0)"},
		{"commands_list", "commands.list()"},
		{"commands_kill", "commands.kill()"},
		{"commands_connect", "commands.connect()"},
		{"send_stdin", "commands.run(stdin=True), send_stdin()"},
		{"pty", "pty.create()"},
	}},
	{"Files", []call{
		{"make_dir", "files.make_dir()"},
		{"write", "files.write()"},
		{"write_files", "files.write_files()"},
		{"read_text", "files.read()"},
		{"read_bytes", `files.read(format="bytes")`},
		{"read_stream", `files.read(format="stream")`},
		{"files_list", "files.list()"},
		{"files_get_info", "files.get_info()"},
		{"exists", "files.exists()"},
		{"rename", "files.rename()"},
		{"remove", "files.remove()"},
		{"watch_dir", "files.watch_dir()"},
		{"write_metadata", "files.write(metadata=…)"},
		{"write_gzip", "files.write(gzip=True), files.read(gzip=True)"},
	}},
	{"Hosts and URLs", []call{
		{"get_host_http", "get_host(), HTTP, a port that the record maps"},
		{"get_host_tunnel", "get_host(), HTTP, any other port"},
		{"get_host_sse", "get_host(), server-sent events"},
		{"get_host_websocket", "get_host(), WebSocket"},
		{"get_host_grpc", "get_host(), gRPC"},
		{"get_mcp_url", "get_mcp_url(), with a server at port 50005"},
		{"code_interpreter_host", "get_host(49999), where Code Interpreter listens"},
		{"download_url", "download_url()"},
		{"download_url_expiring", "download_url(use_signature_expiration=60)"},
		{"upload_url", "upload_url()"},
		{"upload_url_expiring", "upload_url(use_signature_expiration=60)"},
	}},
	{"Other", []call{
		{"git", "git.init(timeout=30), add(), commit(), status(), clone() …"},
		{"template_build", "Template.build()"},
		{"template_exists", "Template.exists()"},
		{"template_get_tags", "Template.get_tags()"},
		{"template_assign_tags", "Template.assign_tags()"},
		{"template_remove_tags", "Template.remove_tags()"},
		{"volume_create", "Volume.create()"},
		{"volume_list", "Volume.list()"},
		{"volume_connect", "Volume.connect(id)"},
		{"volume_get_info", "Volume.get_info(id)"},
		{"volume_destroy", "Volume.destroy(id)"},
		{"secret_create", "Secret.create()"},
		{"secret_list", "Secret.list()"},
		{"secret_get_info", "Secret.get_info(id)"},
		{"secret_update", "Secret.update(id)"},
		{"secret_destroy", "Secret.destroy(id)"},
	}},
}

// everyCall goes over the calls in the order of the table.
func everyCall(f func(call)) {
	for _, a := range areas {
		for _, c := range a.Calls {
			f(c)
		}
	}
}
