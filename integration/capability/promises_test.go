package capability

import (
	"strings"
	"testing"
)

const notOffered = "is not offered by this deployment"

// unsupported are the calls that nothing can be done about behind the gateway, and what the exception's text must say. All other calls work.
var unsupported = map[string]string{
	"create_no_internet":   "allow_internet_access",
	"create_network":       "network",
	"create_volume":        "volumeMounts",
	"create_mcp":           "mcp",
	"list_paused":          "paused",
	"get_metrics":          notOffered,
	"fork":                 notOffered,
	"update_network":       notOffered,
	"create_snapshot":      notOffered,
	"list_snapshots":       notOffered,
	"delete_snapshot":      notOffered,
	"write_metadata":       "requires envd", // the SDK asks nobody
	"template_build":       notOffered,
	"template_exists":      notOffered,
	"template_get_tags":    notOffered,
	"template_assign_tags": notOffered,
	"template_remove_tags": notOffered,
	"volume_create":        notOffered,
	"volume_list":          notOffered,
	"volume_connect":       notOffered,
	"volume_get_info":      notOffered,
	"volume_destroy":       notOffered,
	"secret_create":        notOffered,
	"secret_list":          notOffered,
	"secret_get_info":      notOffered,
	"secret_update":        notOffered,
	"secret_destroy":       notOffered,
}

// onlyEnvd are the calls that ROCK's own commands and files have nothing for; with envd in the sandbox they work.
var onlyEnvd = map[string]string{
	"run_unlimited":    "commands without a timeout are not supported",
	"send_stdin":       "interactive and tagged commands are not supported",
	"pty":              "interactive and tagged commands are not supported",
	"commands_list":    notOffered,
	"commands_kill":    notOffered,
	"commands_connect": notOffered,
	"rename":           notOffered,
	"remove":           notOffered,
	"watch_dir":        notOffered,
}

// optedIn are the calls that work where the cluster has resume restart and pause stop.
var optedIn = map[string]string{
	"create_auto_pause": "autoPause",
	"pause":             notOffered,
	"resume":            "paused",
}

// onlyDomain are the calls that need a domain: without one the SDK names hosts of somebody else, or URLs that name no sandbox.
var onlyDomain = map[string]string{
	"get_host_http":         elsewhere,
	"get_host_tunnel":       elsewhere,
	"get_host_sse":          elsewhere,
	"get_host_websocket":    elsewhere,
	"get_host_grpc":         elsewhere,
	"get_mcp_url":           elsewhere,
	"code_interpreter_host": elsewhere,
	"download_url":          "E2B_DOMAIN",
	"download_url_expiring": "E2B_DOMAIN",
	"upload_url":            "E2B_DOMAIN",
	"upload_url_expiring":   "E2B_DOMAIN",
}

// older SDKs lack some calls, and HTTP/1.1 cannot carry gRPC.
func mayBeAbsent(m mode, by, name string) bool {
	switch {
	case name == "get_host_grpc":
		return m == domainH1
	case strings.HasPrefix(name, "secret_"):
		return strings.Contains(by, "2.34.0")
	default:
		return name == "fork" && by == "js-2.34.0"
	}
}

// promise holds an outcome behind the gateway against what is promised of it.
func promise(t *testing.T, m mode, by, name string, got told) {
	t.Helper()
	text, fails := unsupported[name]
	if !fails && m != withEnvd {
		text, fails = onlyEnvd[name]
	}
	if !fails && m == shared {
		text, fails = onlyDomain[name]
	}
	if !fails && m == shared {
		text, fails = optedIn[name]
	}
	switch {
	case got.Outcome == absent && mayBeAbsent(m, by, name):
	case !fails && got.Outcome != works:
		t.Errorf("it must work, and: %s", got)
	case !fails:
	case got.Outcome == works:
		t.Errorf("it works: the table of promises is out of date")
	case got.Outcome == raised && !got.Typed:
		t.Errorf("that is no exception of the SDK's own: %s", got)
	case got.Outcome != raised && got.Outcome != refused && got.Outcome != text, !strings.Contains(got.String(), text):
		t.Errorf("got %s, which does not say %q", got, text)
	}
}
