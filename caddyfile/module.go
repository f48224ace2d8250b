package e2bcaddyfile

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// RegistryNamespace is the namespace of the modules that are registries. The
// part of a module's id after it is the name of the backend.
const RegistryNamespace = "e2b.registries"

// parseModule hands the block to the module of the namespace that the argument
// of the option names, and returns the module's JSON with its name under
// inlineKey.
func parseModule(d *caddyfile.Dispenser, namespace, inlineKey string) (json.RawMessage, error) {
	option, known := d.Val(), modules(namespace)
	if !d.NextArg() {
		return nil, d.Errf("%s needs a %s: %s", option, inlineKey, strings.Join(known, ", "))
	}
	which := d.Val()
	if !slices.Contains(known, which) {
		return nil, d.Errf("unknown %s %q; this program has: %s", option, which, strings.Join(known, ", "))
	}
	module, err := caddyfile.UnmarshalModule(d, namespace+"."+which)
	if err != nil {
		return nil, err
	}
	var warnings []caddyconfig.Warning
	raw := caddyconfig.JSONModuleObject(module, inlineKey, which, &warnings)
	if len(warnings) > 0 {
		return nil, d.Errf("%s %s: %s", option, which, warnings[0].Message)
	}
	return raw, nil
}

// modules are the names of those in the namespace that are compiled in.
func modules(namespace string) []string {
	var names []string
	for _, m := range caddy.GetModules(namespace) {
		names = append(names, m.ID.Name())
	}
	return names
}

// moduleIn is the name of the module in what parseModule returns, "" when there
// is none.
func moduleIn(raw json.RawMessage, inlineKey string) string {
	var fields map[string]any
	if json.Unmarshal(raw, &fields) != nil {
		return ""
	}
	name, _ := fields[inlineKey].(string)
	return name
}
