package sdk

// The checks that each program must report, in every language. They are listed here and not taken from the programs,
// so that a check cannot vanish from one of them unseen.
var (
	lifeChecks = []string{
		"create", "get_info", "get_info_static", "is_running", "list_by_metadata", "list_no_match",
		"run", "run_non_zero", "run_non_ascii", "run_envs", "run_cwd", "run_cwd_missing", "run_timeout",
		"run_background", "run_background_non_zero", "run_disconnect", "run_large_output",
		"make_dir_twice", "files_name:plain.txt", "files_name:two words.txt", "files_name:a+b.txt",
		"files_name:100%25 %41.txt", "files_name:żółw-東京.txt", "files_list", "files_get_info", "files_seen_by_command",
		"files_overwrite", "files_empty", "files_bytes", "files_stream", "files_large", "write_files", "files_missing",
		"files_read_directory", "set_timeout", "kill_twice", "is_running_after_kill", "get_info_after_kill",
	}
	envdChecks = []string{
		"run_output_while_running", "stdin", "commands_list", "commands_kill", "commands_connect", "pty",
		"files_rename", "files_remove", "watch_dir",
	}
	goneChecks = []string{
		"get_info_unknown", "set_timeout_unknown", "kill_unknown", "create_then_kill",
		"get_info_killed", "set_timeout_killed", "kill_killed", "is_running_killed",
		"run_killed", "run_background_killed", "files_read_killed", "files_write_killed", "files_list_killed",
		"files_exists_killed", "files_get_info_killed", "files_make_dir_killed",
	}
	liveChecks   = []string{"create", "run_live_output", "kill"}
	silentChecks = []string{"create", "silent_command", "kill"}
	// pausingChecks are those of each of the two processes.
	pausingChecks = map[string][]string{
		"make": {
			"create_with_defaults", "refused:allow_internet_access", "refused:network.denyOut", "refused:network.maskRequestHost",
			"refused:autoResume.enabled", "refused:mcp", "refused:volumeMounts", "create_private", "create",
		},
		"use": {"connect", "pause", "resume", "kill"},
	}
)
