package scale

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// row is what so many events of one kind have cost together.
type row struct {
	of     string
	events int
	cost
}

// The table stands between these lines.
const (
	begin = "<!-- made by `make scale` -->\n"
	end   = "<!-- end of what `make scale` has made -->\n"
)

// show prints the table, and puts it into a file that has a place for it.
func show(t *testing.T, rows []row, file string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("| each | commands | bytes to Redis | bytes from Redis | Redis, µs of processor | gateways, µs of processor | gateways, allocations |\n|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		commands := 0
		for _, n := range r.commands {
			commands += n
		}
		per := func(n float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", n/float64(r.events)), ".0") }
		micro := func(d time.Duration) string {
			return fmt.Sprintf("%.1f", float64(d.Nanoseconds())/1000/float64(r.events))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n",
			r.of, per(float64(commands)), per(float64(r.in)), per(float64(r.out)), micro(r.redis), micro(r.gateways), per(float64(r.allocations)))
	}
	t.Logf("%d gateways, %d sandboxes\n%s", *gateways, *sandboxes, &b)
	if file == "" {
		return
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no place for the table", file)
	}
	head := fmt.Sprintf("%s: %d gateways, %d sandboxes.\n\n", time.Now().Format(time.DateOnly), *gateways, *sandboxes)
	if err := os.WriteFile(file, []byte(before+begin+head+b.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
