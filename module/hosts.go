package module

import (
	"go.uber.org/zap"
)

// adviseHosts says so when there are hosts of sandboxes that lead nowhere:
// get_host() names them, and every request to one would find its port closed.
func (a *App) adviseHosts() {
	if len(a.Domains) == 0 {
		return
	}
	for i, c := range a.Clusters {
		cure := ""
		_, knowsNoPorts := a.registries[i].(*ControlRegistry)
		switch {
		case len(c.Allow) == 0:
			cure = "allow, with the networks its sandboxes are in"
		case knowsNoPorts && c.UnmappedPorts != "dial":
			cure = "registry redis, which knows how ports are reached, or unmapped_ports dial, where sandboxes have addresses of their own"
		default:
			continue
		}
		a.logger.Warn("there is a domain, but no port of this cluster's sandboxes other than envd's can be reached: it needs "+cure,
			zap.String("cluster", c.Name))
	}
}
