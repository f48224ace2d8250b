package module

import "go.uber.org/zap"

// adviseHosts says so when there are hosts of sandboxes that lead nowhere:
// get_host() names them, and every request to one would find its port closed.
func (a *App) adviseHosts() {
	if len(a.Domains) == 0 {
		return
	}
	for _, c := range a.Clusters {
		if len(c.Allow) == 0 {
			a.logger.Warn("there is a domain, but no port of this cluster's sandboxes other than envd's can be reached: "+
				"it needs allow, with the networks its sandboxes are in", zap.String("cluster", c.Name))
		}
	}
}
