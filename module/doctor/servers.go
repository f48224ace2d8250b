package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// sdkIdle is how long Python's SDK keeps an unused connection.
const sdkIdle = 5 * time.Minute

// servers looks at the options of the servers that the gateway is on.
func (x *examination) servers(context.Context) {
	if len(x.App.Clusters) > 0 && !slices.ContainsFunc(x.view.servers, (*server).gateway) {
		x.found(noHandler, "config", "The app e2b is configured, and none of %d servers has a handler e2b.", len(x.view.servers)+x.view.others)
	}
	for _, s := range x.view.servers {
		where := "server " + s.name
		if s.WriteTimeout > 0 {
			x.found(writeTimeout, where, "write_timeout is %v.", time.Duration(s.WriteTimeout))
		}
		if s.ReadTimeout > 0 {
			x.found(readTimeout, where, "read_timeout is %v.", time.Duration(s.ReadTimeout))
		}
		if s.WriteMinRate > 0 || s.ReadMinRate > 0 {
			x.found(minimumRate, where, "read_min_rate is %d and write_min_rate is %d bytes a second.", s.ReadMinRate, s.WriteMinRate)
		}
		if s.IdleTimeout > 0 && time.Duration(s.IdleTimeout) <= sdkIdle {
			x.found(idleTooShort, where, "idle_timeout is %v.", time.Duration(s.IdleTimeout))
		}
		if s.EnableFullDuplex {
			x.found(fullDuplex, where, "enable_full_duplex is set.")
		}
		if s.gateway() && !slices.ContainsFunc(s.ListenerWrappersRaw, func(raw json.RawMessage) bool { return moduleName(raw, "wrapper") == "e2b" }) {
			x.found(noWrapper, where, "It has no listener wrapper e2b.")
		}
		x.protocols(s, where)
		if !s.open && !x.view.secure(s, "") && s.gateway() {
			x.found(noCatchAll, where, "Every site of %s has host names, and it is in cleartext.", strings.Join(s.Listen, ", "))
		}
	}
}

func (x *examination) protocols(s *server, where string) {
	secure := x.view.secure(s, "") || slices.ContainsFunc(s.places, func(p *place) bool {
		return slices.ContainsFunc(p.hosts, func(host string) bool { return x.view.secure(s, host) })
	})
	offered := s.Protocols
	if len(offered) == 0 {
		offered = []string{"h1", "h2", "h3"}
	}
	offered = slices.DeleteFunc(slices.Clone(offered), func(p string) bool { return p == "h1" || !secure && p != "h2c" })
	if len(offered) > 0 && s.gateway() {
		x.found(offersHTTP2, where, "It offers %s beside HTTP/1.1.", strings.Join(offered, ", "))
	}
}

// process looks at what concerns the process as a whole.
func (x *examination) process(context.Context) {
	if x.view.admin.Disabled {
		x.found(adminOff, "admin", "The admin endpoint is off.")
	} else if listen := cmp.Or(x.view.admin.Listen, "localhost:2019"); reachable(listen) {
		x.found(adminExposed, "admin", "It listens on %s.", listen)
	}
	grace, option := time.Duration(x.view.http.GracePeriod), "grace_period"
	if grace == 0 {
		grace, option = cmp.Or(time.Duration(x.App.DrainTimeout), 30*time.Second), "drain_timeout"
	}
	if grace < 10*time.Second {
		x.found(graceTooShort, "global options", "%s is %v.", option, grace)
	}
	if delay := time.Duration(x.view.http.ShutdownDelay); delay > 0 && delay < 3*time.Second {
		x.found(delayTooShort, "global options", "shutdown_delay is %v.", delay)
	}
	const enough = 8192
	if x.OpenFiles > 0 && x.OpenFiles < enough {
		x.found(openFilesLow, "this process", "A process started as doctor was may have %d files open, which is some %d calls at a time.", x.OpenFiles, x.OpenFiles/2)
	}
}
