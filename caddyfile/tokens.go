package e2bcaddyfile

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// eachOption calls parse for every option of the block that follows, with the
// dispenser at the option's name. An option that comes twice is an error,
// unless it is one of repeatable.
func eachOption(d *caddyfile.Dispenser, parse func(option string) error, repeatable ...string) error {
	seen := map[string]bool{}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		option := d.Val()
		if seen[option] && !slices.Contains(repeatable, option) {
			return d.Errf("option %q is given twice", option)
		}
		seen[option] = true
		if err := parse(option); err != nil {
			return err
		}
	}
	return nil
}

// unknown is the error for an option that does not exist.
func unknown(d *caddyfile.Dispenser, option string, known ...string) error {
	return d.Errf("unknown option %q; the options here are: %s", option, strings.Join(known, ", "))
}

// position is a place in a Caddyfile, to report an error at later.
type position caddyfile.Token

func here(d *caddyfile.Dispenser) position { return position(d.Token()) }

// errf is an error at p, in the words of any other error of a Caddyfile.
func (p position) errf(format string, args ...any) error {
	d := caddyfile.NewDispenser([]caddyfile.Token{caddyfile.Token(p)})
	d.Next()
	return d.Errf(format, args...)
}

// nothing reports arguments or a block where there must be none.
func nothing(d *caddyfile.Dispenser, option string) error {
	if d.NextArg() {
		return d.Errf("option %q takes no argument, but %q follows", option, d.Val())
	}
	return noBlock(d, option)
}

func noBlock(d *caddyfile.Dispenser, option string) error {
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		return d.Errf("%q takes no block", option)
	}
	return nil
}

// word reads the one argument of the option the dispenser is at.
func word(d *caddyfile.Dispenser) (string, error) {
	option := d.Val()
	var value string
	if !d.AllArgs(&value) || value == "" {
		return "", d.Errf("option %q takes exactly one argument", option)
	}
	return value, noBlock(d, option)
}

func setWord(d *caddyfile.Dispenser, to *string) (err error) {
	*to, err = word(d)
	return err
}

// words reads the arguments of the option the dispenser is at, at least one,
// each once, and each checked at its own place.
func words(d *caddyfile.Dispenser, to *[]string, check func(string) error) error {
	option := d.Val()
	for d.NextArg() {
		value := d.Val()
		if slices.Contains(*to, value) {
			return d.Errf("%s: %q is given twice", option, value)
		}
		if check != nil && !hasPlaceholder(value) {
			if err := check(value); err != nil {
				return d.Errf("%s: %v", option, err)
			}
		}
		*to = append(*to, value)
	}
	if len(*to) == 0 {
		return d.Errf("option %q takes at least one argument", option)
	}
	return noBlock(d, option)
}

// choice reads one of a few words.
func choice(d *caddyfile.Dispenser, to *string, choices ...string) error {
	option := d.Val()
	value, err := word(d)
	if err != nil {
		return err
	}
	if !slices.Contains(choices, value) {
		return d.Errf("%s: %q is none of: %s", option, value, strings.Join(choices, ", "))
	}
	*to = value
	return nil
}

// duration reads a positive duration.
func duration(d *caddyfile.Dispenser, to *caddy.Duration) error {
	option := d.Val()
	value, err := word(d)
	if err != nil {
		return err
	}
	n, err := caddy.ParseDuration(value)
	if err != nil {
		return d.Errf("%s: %q is not a duration such as 500ms, 30s or 1h", option, value)
	}
	if n <= 0 {
		return d.Errf("%s: must be more than zero", option)
	}
	*to = caddy.Duration(n)
	return nil
}

// durationOrOff reads a positive duration or "off", which is -1.
func durationOrOff(d *caddyfile.Dispenser, to *caddy.Duration) error {
	return orOff(d, func() { *to = -1 }, func() error { return duration(d, to) })
}

// orOff calls off when "off" is the one argument of the option the dispenser is
// at, and read otherwise.
func orOff(d *caddyfile.Dispenser, off func(), read func() error) error {
	if option := d.Val(); d.CountRemainingArgs() == 1 {
		d.NextArg()
		if d.Val() == "off" {
			off()
			return noBlock(d, option)
		}
		d.Prev()
	}
	return read()
}

// wholeSeconds reads a positive duration without a fraction of a second.
func wholeSeconds(d *caddyfile.Dispenser, to *caddy.Duration) error {
	option := d.Val()
	if err := duration(d, to); err != nil {
		return err
	}
	if time.Duration(*to)%time.Second != 0 {
		return d.Errf("%s: must be whole seconds", option)
	}
	return nil
}

// number reads a whole number within bounds, both included.
func number(d *caddyfile.Dispenser, to *int, lowest, highest int) error {
	option := d.Val()
	value, err := word(d)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < lowest || n > highest {
		return d.Errf("%s: %q is not a number from %d to %d", option, value, lowest, highest)
	}
	*to = n
	return nil
}

// size reads a positive number of bytes.
func size(d *caddyfile.Dispenser, to *int64) error {
	option := d.Val()
	value, err := word(d)
	if err != nil {
		return err
	}
	if *to, err = parseSize(value); err != nil {
		return d.Errf("%s: %v", option, err)
	}
	return nil
}

var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9},
	{"B", 1}, // last: it ends all the others
}

// parseSize reads a positive whole number of bytes: "65536", "64KiB", "1MB".
func parseSize(s string) (int64, error) {
	digits, unit := s, int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(s, u.name); ok {
			digits, unit = rest, u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is not a size such as 65536, 64KiB or 1MiB", s)
	}
	return n * unit, nil
}

// hasPlaceholder reports a value that can only be checked once it is expanded.
func hasPlaceholder(s string) bool { return strings.ContainsRune(s, '{') }

// wholePlaceholder is a value that is one placeholder, and of those that are
// expanded when the config is loaded.
var wholePlaceholder = regexp.MustCompile(`^\{(env|file)\.[^{}]+\}$`)

// secret reads the one argument of the option the dispenser is at, which must
// be a placeholder.
func secret(d *caddyfile.Dispenser, to *string) error {
	option := d.Val()
	if d.CountRemainingArgs() != 1 {
		return d.Errf("option %q takes exactly one argument", option)
	}
	d.NextArg()
	if err := checkSecret(option, d.Val()); err != nil {
		return d.Err(err.Error())
	}
	*to = d.Val()
	return noBlock(d, option)
}

// checkSecret refuses a secret that is written out: the config is shown at
// Caddy's admin endpoint, written to its autosave file and printed by "adapt".
// The error does not quote it.
func checkSecret(option, value string) error {
	if value == "" || wholePlaceholder.MatchString(value) {
		return nil
	}
	return fmt.Errorf("%s: a secret does not belong into the config; use {env.NAME} or {file./path}, "+
		"which are read when the config is loaded ({$NAME} is not: it writes the secret into the config)", option)
}
