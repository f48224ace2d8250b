package incidents

// recipe is how an operator finds out about one incident. All signs must be seen.
type recipe struct {
	incident string
	// users is what they say.
	users string
	signs []sign
	// cure is what it means, and what to do.
	cure string
}

// failed selects the calls that have ended badly.
const failed = `e2b_gateway_requests_total{end!~"ok|client_gone"}`

var recipes = []recipe{
	{
		incident: "Redis is down",
		users:    "nothing, for as long as `stale` of the cache is (5 minutes); then, and about sandboxes made elsewhere, `at the moment` (503).",
		signs: []sign{
			rises(`e2b_gateway_registry_lookups_total{result="unavailable"}`),
			is(`e2b_gateway_registry_failing`, 1),
			finds("redis-unreachable"),
		},
		cure: "The gateway serves the last known routes and says nothing false. Bring Redis, its sentinels or the network between back; nothing is to be done here, " +
			"and no gateway should be restarted meanwhile: it would forget the routes it knows.",
	},
	{
		incident: "Redis is slow",
		users:    "calls take longer than they did, some by as much as `patience` (200 ms), those to sandboxes not seen before by more.",
		signs: []sign{
			mostlyLonger(`e2b_gateway_registry_lookup_seconds`, "0.25"),
			not(is(`e2b_gateway_registry_failing`, 1)),
		},
		cure: "Redis answers, and late. `SLOWLOG GET`, `INFO commandstats` and `LATENCY DOCTOR` there: the gateway's own commands are short. A longer `ttl` " +
			"of the cache asks less.",
	},
	{
		incident: "a token key was taken away too early",
		users:    "`The access token in the header X-Access-Token is not valid for this sandbox` (401), all at once, for sandboxes that are old.",
		signs: []sign{
			rises(`e2b_gateway_credentials_refused_total{plane="data",reason="other_key"}`),
		},
		cure: "Tokens come that were made with a key which this gateway does not have. Put the old key back behind the new one, on every gateway, and reload: the same tokens are " +
			"good again. Take it away when the sandboxes from before the rotation have ended.",
	},
	{
		incident: "one address of the proxy role is dead",
		users:    "`the sandbox may still be running`, once, for what ran there; then nothing.",
		signs: []sign{
			is(`e2b_gateway_address_up{role="proxy"}`, 0),
			is(`e2b_gateway_address_up{role="proxy"}`, 1),
			rises(`e2b_gateway_upstream_dial_errors_total{address!="sandboxes",reason!="unresolved"}`),
			finds("role-unreachable"),
		},
		cure: "The label `address` says which. New calls go to the others. Restart it, or take it out of `proxy` and reload.",
	},
	{
		incident: "a sandbox was killed",
		users:    "`was not found`, of one sandbox, in the middle of a command.",
		signs: []sign{
			rises(`e2b_gateway_stream_ends_total{end="sandbox_gone"}`),
			logged("end", "^sandbox_gone$", "sandbox_id", "."),
			explains("sandbox.answer", "^gone$"),
		},
		cure: "It is true: the registry was asked and has no such sandbox. Who ended it is in the access log, `operation` is `Sandbox.kill`; without such a line it was " +
			"ROCK itself, whose log says why.",
	},
	{
		incident: "a port is closed",
		users:    "`port is not open` (502), of one port.",
		signs: []sign{
			rises(`e2b_gateway_requests_total{end="port_closed"}`),
			logged("end", "^port_closed$", "cause", "refused|not open|closed"),
			explains("sandbox.answer", "^here$"),
			explains("sandbox.state", "^running$"),
		},
		cure: "The sandbox runs, and nothing listens on the port in it. If something should: it has crashed, or listens on another address of the sandbox than the one that is mapped.",
	},
	{
		incident: "the machine of a sandbox does not answer",
		users:    "`does not answer at its address` (503), of one sandbox, or of all that are on one machine.",
		signs: []sign{
			rises(`e2b_gateway_requests_total{end="sandbox_unreachable"}`),
			rises(`e2b_gateway_upstream_dial_errors_total{address="sandboxes",reason=~"timeout|unreachable"}`),
			logged("end", "^sandbox_unreachable$", "cause", "timeout|unreachable|no route"),
			explains("sandbox.answer", "^here$"),
			explains("sandbox.state", "^running$"),
		},
		cure: "The registry has the sandbox as running, and what is sent to its machine is lost. The log names the address. If the machine is there, it is the network between: a firewall, a route, " +
			"a policy. If it is not, ROCK has to notice and end its sandboxes: nothing is to be done at the gateway, which has said nothing false.",
	},
	{
		incident: "a reload, and nothing else",
		users:    "connections that were being opened were reset, at one moment.",
		signs: []sign{
			changes(`caddy_config_last_reload_success_timestamp_seconds`),
			logged("logger", "^admin.api$", "msg", "^load complete$"),
			not(rises(failed)),
		},
		cure: "The config was replaced, and no call has ended badly for it. See \"Reloads\" in the README for what clients can notice: the listener wrapper, and `tcp_migrate_req`.",
	},
	{
		incident: "clocks differ",
		users:    "`The signature of the URL has expired` (401), of links that were just made.",
		signs: []sign{
			rises(`e2b_gateway_credentials_refused_total{reason="expired"}`),
			finds("clock-skew"),
		},
		cure: "The links are void by this machine's clock and good by their makers'. `doctor` says which of ROCK's machines disagrees with this one. Mend the time service of the " +
			"one that is wrong.",
	},
	{
		incident: "a name of ROCK's has no address",
		users:    "`cannot be reached` (503), of everything.",
		signs: []sign{
			rises(`e2b_gateway_upstream_dial_errors_total{reason="unresolved"}`),
			rises(`e2b_gateway_requests_total{end="cluster_unreachable"}`),
			logged("end", "^cluster_unreachable$", "cause", "lookup "),
			finds("role-unreachable"),
		},
		cure: "The log names the host. Ask for it on the gateway's own machine; mend the record, the resolver, or the config, which may have been loaded with a wrong name just now.",
	},
	{
		incident: "a limit is reached",
		users:    "`Too many requests`, `Too many streams`, `Too many creates` (429; `RateLimitException`).",
		signs: []sign{
			rises(`e2b_gateway_limits_reached_total`),
			logged("end", "^limit$", "subject", "."),
		},
		cure: "The label `limit` says which, the field `subject` whose. Raise `limits`, or those in the key's record, if the use is meant.",
	},
}
