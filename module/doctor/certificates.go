package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddytls"
)

// expiresSoon is how long before its end a certificate in a file is warned of.
const expiresSoon = 14 * 24 * time.Hour

// loaded is a certificate in a file.
type loaded struct {
	file string
	tags []string
	leaf *x509.Certificate
}

// covers reports a certificate for a name, which may be a wildcard.
func (l *loaded) covers(name string) bool {
	return l.leaf.VerifyHostname(strings.Replace(name, "*", "49983-"+probe, 1)) == nil
}

// certificates looks at those in files, and for a way to those that are in none.
func (x *examination) certificates(context.Context) {
	files := x.load()
	for _, l := range files {
		switch left := time.Until(l.leaf.NotAfter); {
		case left <= 0 || time.Now().Before(l.leaf.NotBefore):
			x.found(certificateExpired, l.file, "It is valid from %s to %s.", date(l.leaf.NotBefore), date(l.leaf.NotAfter))
		case left < expiresSoon:
			x.found(certificateExpires, l.file, "It is valid until %s.", date(l.leaf.NotAfter))
		}
	}
	hosts := x.view.hosts()
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		s := hosts[name]
		if !x.view.secure(s, name) || slices.ContainsFunc(files, func(l *loaded) bool { return l.covers(name) }) {
			continue
		}
		x.uncovered(s, name, files)
	}
}

// uncovered looks at a name that no certificate in a file is for.
func (x *examination) uncovered(s *server, name string, files []*loaded) {
	for _, l := range files {
		if pinned(s, name, l.tags) {
			x.found(certificateName, "site "+name, "%s is for %s.", l.file, strings.Join(l.leaf.DNSNames, ", "))
			return
		}
	}
	wildcard, onDemand := x.view.challenge(name)
	if isWildcard(name) && !wildcard {
		x.found(wildcardCertificate, "site "+name, "There is no challenge by DNS, no file and no authority of Caddy's own for it.")
	}
	if onDemand {
		if by := permission(x.view.tls.Automation); by != "e2b" {
			x.found(onDemandPermission, "site "+name, "Its permission is %s.", orNone(by))
		}
	}
}

// pinned reports a site that is given the certificate with a tag.
func pinned(s *server, name string, tags []string) bool {
	for _, policy := range s.TLSConnPolicies {
		if policy == nil || policy.CertSelection == nil {
			continue
		}
		var names []string
		_ = json.Unmarshal(policy.MatchersRaw["sni"], &names)
		if slices.Contains(names, name) && slices.ContainsFunc(policy.CertSelection.AnyTag, func(tag string) bool { return slices.Contains(tags, tag) }) {
			return true
		}
	}
	return false
}

// load reads the certificates in files. What cannot be read is refused by Caddy.
func (x *examination) load() (files []*loaded) {
	for _, name := range slices.Sorted(maps.Keys(x.view.tls.CertificatesRaw)) {
		if name != "load_files" {
			if name != "automate" {
				x.unchecked("certificates by "+name, "only those in load_files are read")
			}
			continue
		}
		var pairs caddytls.FileLoader
		_ = json.Unmarshal(x.view.tls.CertificatesRaw[name], &pairs)
		for _, pair := range pairs {
			c, err := tls.LoadX509KeyPair(pair.Certificate, pair.Key)
			if err != nil {
				x.unchecked("the certificate "+pair.Certificate, "it cannot be read")
				continue
			}
			leaf, err := x509.ParseCertificate(c.Certificate[0])
			if err != nil {
				x.unchecked("the certificate "+pair.Certificate, fmt.Sprint(err))
				continue
			}
			files = append(files, &loaded{pair.Certificate, pair.Tags, leaf})
		}
	}
	return files
}

func date(t time.Time) string { return t.UTC().Format(time.DateOnly) }

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
