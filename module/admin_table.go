package module

import "slices"

// AdminRoutes are all routes of the admin API, in the order of docs/admin.md.
func AdminRoutes() []AdminRoute { return slices.Clone(adminRoutes) }

// adminRoutes is the one table: what is not in it is not served.
var adminRoutes []AdminRoute

// init and no composite literal of the variable: the handlers lead back to the table.
func init() {
	sandbox := "only those of this sandbox"
	cluster := "only those of this cluster"
	adminRoutes = []AdminRoute{
		{Method: "GET", Path: "/e2b/{$}", read: (*Admin).page,
			Query: map[string]string{"sandbox": "a sandbox that is explained at once"},
			Doc:   "The status page, for a browser. It reads the other routes and changes nothing."},
		{Method: "GET", Path: readyPath, read: (*Admin).ready,
			Query: map[string]string{"strict": "`true`: 503 also while no cluster can be used, for a load balancer that uses all gateways when none is ready"},
			Doc: "Whether requests should come: 200 `{\"ready\":true}` once a cluster was seen whole, and 503 `{\"ready\":false}` before that and from the signal to exit on, so that a load balancer takes the gateway out. " +
				"Together with `shutdown_delay` nobody notices that it goes. What is wrong stands in `reasons`; see docs/health.md."},
		{Method: "GET", Path: livePath, read: (*Admin).alive,
			Doc: "200 `{\"live\":true}` from a process that works. It looks at nothing else: to start it anew mends no other."},
		{Method: "GET", Path: "/e2b/status", read: (*Admin).status,
			Doc: "The state of the gateway: the clusters with the addresses of their roles and their registries, the counters of the route cache, how many streams run, what is drained."},
		{Method: "GET", Path: "/e2b/history", read: (*Admin).history,
			Doc: "What is remembered of the past, in memory and bounded: how streams have ended in each minute of the last hour, the last 200 failures, the sandboxes with the slowest calls."},
		{Method: "GET", Path: "/e2b/routes", read: (*Admin).routes,
			Query: map[string]string{"cluster": cluster, "limit": "how many at most, 1 to 100000; default 1000"},
			Doc:   "The routes that are remembered of running sandboxes, those asked for longest ago first, without asking anybody."},
		{Method: "DELETE", Path: "/e2b/routes", change: (*Admin).invalidateAll,
			Doc: "Has every route asked for again when it is next needed. Until the registry has answered they stay the last known ones."},
		{Method: "GET", Path: "/e2b/routes/{sandbox}", read: (*Admin).route,
			Query: map[string]string{"fresh": "`true`: the registry is asked now, whatever is remembered"},
			Doc: "What is known of a sandbox, as a request for it would find it: `answer` is `here`, `gone`, or `unknown` when nobody can say, each with status 200. " +
				"It names the state, the owner, the cluster and the address."},
		{Method: "DELETE", Path: "/e2b/routes/{sandbox}", change: (*Admin).invalidate,
			Doc: "Forgets what is remembered of a sandbox. It will not be served as last known either: while the registry does not answer, the sandbox cannot be reached then."},
		{Method: "GET", Path: "/e2b/watch", read: (*Admin).watch,
			Doc: "A line of JSON for each change that a registry pushes, as it comes: `{\"time\":…,\"sandbox_id\":…}`, with the id `\"\"` when anything may have changed. " +
				"The first line is `{\"time\":…,\"watching\":true}`. It ends when the config is replaced."},
		{Method: "POST", Path: "/e2b/explain", read: (*Admin).explain,
			Example: `{"method":"POST","host":"api.example.com","path":"/process.Process/Start","sandbox_id":"abc","as_owner":true}`,
			Doc:     "What would become of a request, and why: it goes through the decisions of a real one and is not sent. See below."},
		{Method: "GET", Path: "/e2b/streams", read: (*Admin).streams,
			Query: map[string]string{"sandbox": sandbox, "cluster": cluster, "limit": "how many at most, 1 to 100000; default 1000"},
			Doc:   "The streams and WebSockets that run, the oldest first, also those that began under an earlier config. `total` counts those beyond the limit, too."},
		{Method: "DELETE", Path: "/e2b/streams", change: (*Admin).endStreams,
			Query: map[string]string{"sandbox": sandbox, "cluster": cluster},
			Doc:   "Ends the streams of a sandbox or of a cluster, one of which must be named, as a drain does: in the protocol, with the cause `drain`, and the word that the sandbox still runs."},
		{Method: "DELETE", Path: "/e2b/streams/{id}", change: (*Admin).endStream,
			Doc: "Ends one stream in the same way, by its `id` in the list."},
		{Method: "GET", Path: "/e2b/drains", read: (*Admin).drains,
			Doc: "What is drained: sandboxes by id, clusters by name, each since when."},
		{Method: "PUT", Path: "/e2b/drains/sandboxes/{sandbox}", change: (*Admin).drainSandbox,
			Doc: "Takes a sandbox out of service: its streams are ended as above, and new calls to it are refused with 503 and the cause `drain`. The control plane still serves it. " +
				"A drain outlives reloads and ends with the process."},
		{Method: "DELETE", Path: "/e2b/drains/sandboxes/{sandbox}", change: (*Admin).restoreSandbox,
			Doc: "Takes a sandbox into service again."},
		{Method: "PUT", Path: "/e2b/drains/clusters/{cluster}", change: (*Admin).drainCluster,
			Query: map[string]string{"scope": "`creates` (default): no new sandboxes are made in it, others get them; `all`: its streams are ended, too, and new calls to its sandboxes are refused"},
			Doc:   "Drains a cluster. Where every cluster that could take a new sandbox is drained, creates are refused with 503."},
		{Method: "DELETE", Path: "/e2b/drains/clusters/{cluster}", change: (*Admin).restoreCluster,
			Doc: "Takes a cluster into service again."},
	}
}
