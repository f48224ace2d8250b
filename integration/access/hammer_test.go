package access

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/auth"
)

var hammering = flag.Duration("for", 6*time.Second, "how long two tenants hammer each other's sandboxes, for each way of opening them")

// each is how many sandboxes a tenant has.
const each = 50

// tenant is one of the two.
type tenant struct {
	key     credential
	subject string
	ids     []string
	never   []string // ids of the same look that nobody ever had
	marker  string   // in everything that is theirs
}

// swing is a call of the hammer. The id is put in by request.
type swing struct {
	method, path, contentType, body string
	// plane is control, token or signed. A former one is that of somebody who
	// once had a sandbox of the very id: nothing is wrong with it but the owner.
	plane string
}

var swings = []swing{
	{"GET", "/sandboxes/{id}", "", "", "control"},
	{"DELETE", "/sandboxes/{id}", "", "", "control"},
	{"POST", "/sandboxes/{id}/timeout", "application/json", `{"timeout":1}`, "control"},
	{"POST", "/sandboxes/{id}/pause", "application/json", `{}`, "control"},
	{"POST", "/v2/sandboxes/{id}/connect", "application/json", `{}`, "control"},
	{"POST", start, "application/connect+json", frame(0, echo), "token"},
	{"POST", stat, "application/json", `{"path":"/home/user/a"}`, "token"},
	{"GET", "/files?path=%2Fhome%2Fuser%2Fa", "", "", "token"},
	{"POST", "/files?path=%2Fhome%2Fuser%2Fa", "application/octet-stream", "overwritten", "token"},
	{"GET", "/health", "", "", "token"},
	{"GET", "/files?path=%2Fhome%2Fuser%2Fa", "", "", "signed"},
	{"POST", "/files?path=%2Fhome%2Fuser%2Fa", "application/octet-stream", "overwritten", "signed"},
	{"POST", start, "application/connect+json", frame(0, echo), "former"},
	{"POST", stat, "application/json", `{"path":"/home/user/a"}`, "former"},
	{"GET", "/health", "", "", "former"},
	{"GET", "/files?path=%2Fhome%2Fuser%2Fa", "", "", "former signed"},
}

func (sw swing) String() string { return sw.plane + " " + sw.method + " " + sw.path }

// token is what a tenant has for a sandbox, theirs or not.
func (s *scene) token(by *tenant, id string) string {
	if s.mode == passthrough {
		return apiKeys[by.key]
	}
	return tokens["gone"].Mint(auth.AccessToken, id, by.subject)
}

// call makes a call on id, with the token that the tenant has for tokenOf.
func (s *scene) call(by *tenant, sw swing, id, tokenOf string) (status int, head, body string, took time.Duration, err error) {
	target := s.URL + strings.ReplaceAll(sw.path, "{id}", id)
	token := s.token(by, tokenOf)
	if strings.HasSuffix(sw.plane, "signed") {
		op := map[string]string{"GET": "read", "POST": "write"}[sw.method]
		sum := sha256.Sum256([]byte("/home/user/a:" + op + "::" + token))
		target += "&signature=" + url.QueryEscape("v1_"+base64.RawStdEncoding.EncodeToString(sum[:]))
	}
	r, err := http.NewRequest(sw.method, target, strings.NewReader(sw.body))
	if err != nil {
		return 0, "", "", 0, err
	}
	if sw.contentType != "" {
		r.Header.Set("Content-Type", sw.contentType)
	}
	if sw.plane == "control" {
		r.Header.Set("X-API-Key", apiKeys[by.key])
	} else {
		r.Header.Set("E2b-Sandbox-Id", id)
		r.Header.Set("E2b-Sandbox-Port", "49983")
		if !strings.HasSuffix(sw.plane, "signed") {
			r.Header.Set("X-Access-Token", token)
		}
	}
	begun := time.Now()
	resp, err := s.client.Do(r)
	if err != nil {
		return 0, "", "", 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	took = time.Since(begun)
	resp.Header.Del("Date")
	resp.Header.Del("X-Request-Id") // is drawn by lot
	var lines strings.Builder
	_ = resp.Header.Write(&lines)
	return resp.StatusCode, lines.String(), string(b), took, err
}

// tally is what came of the hammering.
type tally struct {
	mu      sync.Mutex
	answers map[string]int             // by swing, whose and status
	took    map[string][]time.Duration // by swing and whose
	slower  map[string][2]int          // pairs in which the foreign, and the unknown one took longer
}

func (a *tally) add(kind string, status int, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers[fmt.Sprintf("%s %d", kind, status)]++
	a.took[kind] = append(a.took[kind], took)
}

func (a *tally) pair(kind string, foreign, never time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.slower[kind]
	if foreign > never {
		n[0]++
	} else {
		n[1]++
	}
	a.slower[kind] = n
}

// Two tenants try every call on each other's sandboxes, in between their own
// work. Nothing gets through, nothing is learnt: no answer, no line of the log
// and no timing class tells a foreign sandbox from one that never was.
func TestTwoTenantsHammerEachOther(t *testing.T) {
	for _, m := range []mode{made, passthrough} {
		t.Run(string(m), func(t *testing.T) {
			s := openOnRedis(t, m)
			tenants := [2]*tenant{s.settleIn(t, valid, alice), s.settleIn(t, foreign, bob)}
			a := &tally{answers: map[string]int{}, took: map[string][]time.Duration{}, slower: map[string][2]int{}}
			deadline := time.Now().Add(*hammering)
			var workers sync.WaitGroup
			for i, by := range tenants {
				for range 8 {
					workers.Go(func() {
						for time.Now().Before(deadline) && !t.Failed() {
							s.strike(t, a, by, tenants[1-i])
							s.work(t, a, by, tenants[1-i])
						}
					})
				}
			}
			workers.Wait()
			s.stillThere(t, tenants)
			a.sameTimes(t)
			s.sameLines(t, tenants)
			a.report(t)
		})
	}
}

// settleIn makes a tenant's sandboxes, each with a file.
func (s *scene) settleIn(t *testing.T, key credential, subject string) *tenant {
	t.Helper()
	by := &tenant{key: key, subject: subject, marker: fmt.Sprintf("%s-%016x", subject, rand.Uint64())}
	var workers sync.WaitGroup
	for i := range each {
		id := fmt.Sprintf("%016x-%02d", rand.Uint64(), i)
		by.ids = append(by.ids, id)
		by.never = append(by.never, fmt.Sprintf("%016x-%02d", rand.Uint64(), i))
		workers.Go(func() {
			status, answer := s.do(t, apiKeys[key], "POST", "/sandboxes", fmt.Sprintf(
				`{"templateID":"python:3.11","metadata":{"ap-sandbox-id":%q,"marker":%q,"all":"x"},"timeout":600}`, id, by.marker))
			if status != 201 {
				t.Errorf("%d %s", status, answer)
			}
			write := swing{"POST", "/files?path=%2Fhome%2Fuser%2Fa", "application/octet-stream", by.marker, "token"}
			if status, _, body, _, err := s.call(by, write, id, id); status != 200 || err != nil {
				t.Errorf("%d %s %v", status, body, err)
			}
		})
	}
	workers.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return by
}

// strike makes one call on a sandbox of somebody else and on one that never was,
// in either order, and compares what is told.
func (s *scene) strike(t *testing.T, a *tally, by, victim *tenant) {
	sw, i := swings[rand.IntN(len(swings))], rand.IntN(each)
	type seen struct {
		status     int
		head, body string
		took       time.Duration
	}
	one := func(whose, id string) (got seen) {
		// A token for an id of somebody else cannot be had, unless it was one's
		// own once; what one has is for one's own.
		var err error
		tokenOf := by.ids[i]
		if strings.HasPrefix(sw.plane, "former") {
			tokenOf = id
		}
		got.status, got.head, got.body, got.took, err = s.call(by, sw, id, tokenOf)
		if err != nil {
			t.Errorf("%s: %v", sw, err)
		}
		a.add(whose+" "+sw.String(), got.status, got.took)
		if strings.Contains(got.body+got.head, victim.marker) {
			t.Errorf("%s of %s: it holds what is %s's: %s", sw, by.subject, victim.subject, got.body)
		}
		got.body = strings.ReplaceAll(got.body, id, "{id}")
		return got
	}
	var theirs, nobodys seen
	if rand.IntN(2) == 0 {
		theirs, nobodys = one("foreign", victim.ids[i]), one("unknown", by.never[i])
	} else {
		nobodys, theirs = one("unknown", by.never[i]), one("foreign", victim.ids[i])
	}
	a.pair(sw.String(), theirs.took, nobodys.took)
	theirs.took, nobodys.took = 0, 0
	if theirs != nobodys {
		t.Errorf("%s:\nforeign %+v\nunknown %+v", sw, theirs, nobodys)
	}
}

// work is a tenant's own work.
func (s *scene) work(t *testing.T, a *tally, by, other *tenant) {
	id := by.ids[rand.IntN(each)]
	list := swing{"GET", "/v2/sandboxes?metadata=all%3Dx", "", "", "control"}
	for _, sw := range []swing{swings[0], swings[7], swings[5], list} {
		if sw == list && rand.IntN(20) > 0 {
			continue
		}
		status, _, body, took, err := s.call(by, sw, id, id)
		a.add("own "+sw.String(), status, took)
		if status != 200 || err != nil || sw != swings[5] && !strings.Contains(body, by.marker) || strings.Contains(body, other.marker) {
			t.Errorf("%s of one's own: %d %.300s %v", sw, status, body, err)
		}
		if sw == list && strings.Count(body, `"sandboxID"`) != each {
			t.Errorf("the list has %d sandboxes", strings.Count(body, `"sandboxID"`))
		}
	}
}

// stillThere checks that nobody has ended, paused or written to anything.
func (s *scene) stillThere(t *testing.T, tenants [2]*tenant) {
	for _, by := range tenants {
		for _, id := range by.ids {
			if status, _, body, _, err := s.call(by, swings[7], id, id); status != 200 || body != by.marker || err != nil {
				t.Errorf("%s: %d %q %v", id, status, body, err)
			}
		}
	}
}

// sameTimes is a sign test on the pairs: which of the two took longer must be a
// coin's toss. A busy machine delays either; only a bias that is both large and
// beyond six deviations is an error.
func (a *tally) sameTimes(t *testing.T) {
	for kind, n := range a.slower {
		all := float64(n[0] + n[1])
		share := float64(n[0]) / all
		z := (float64(n[0]) - all/2) / math.Sqrt(all/4)
		if math.Abs(z) > 6 && (share < 0.25 || share > 0.75) {
			t.Errorf("%s: foreign took longer than unknown in %d of %.0f pairs", kind, n[0], all)
		}
	}
}

// sameLines compares what the logs have of foreign and of unknown sandboxes:
// everything but the moment, the client's port, how long it took, the id and what is
// drawn by lot. Of the lines about failures not all are written, so one that was
// written rarely may be missing of the others by chance.
func (s *scene) sameLines(t *testing.T, tenants [2]*tenant) {
	whose := map[string]string{}
	for _, by := range tenants {
		for i := range by.ids {
			whose[by.ids[i]], whose[by.never[i]] = "foreign", "unknown"
		}
	}
	seen := map[string]map[string]int{"foreign": {}, "unknown": {}}
	for line := range strings.Lines(s.Logs()) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) != nil {
			continue
		}
		id, _ := fields["sandbox_id"].(string)
		if whose[id] == "" || fields["end"] == "ok" {
			continue
		}
		line = strings.ReplaceAll(line, id, "{id}")
		if json.Unmarshal([]byte(line), &fields) != nil {
			continue
		}
		for _, varying := range []string{"ts", "remote", "duration", "lookup_duration", "request_id", "trace_id", "omitted"} {
			delete(fields, varying)
		}
		if answer, ok := fields["resp_headers"].(map[string]any); ok {
			delete(answer, "X-Request-Id")
		}
		if request, ok := fields["request"].(map[string]any); ok {
			delete(request, "remote_port")
			if uri, ok := request["uri"].(string); ok {
				request["uri"], _, _ = strings.Cut(uri, "signature=")
			}
		}
		text, _ := json.Marshal(fields)
		seen[whose[id]][string(text)]++
	}
	if len(seen["foreign"]) == 0 {
		t.Error("nothing was logged of foreign sandboxes")
	}
	for of, other := range map[string]string{"foreign": "unknown", "unknown": "foreign"} {
		for line, n := range seen[of] {
			chance := strings.Contains(line, `"msg":"request ended by the gateway"`) && n < certain
			if seen[other][line] == 0 && !chance {
				t.Errorf("%d times of %s, and never of %s: %s", n, of, other, line)
			}
		}
	}
}

// certain is how often a line is written of one kind of sandboxes that cannot be missing
// of the other by chance: one in a hundred thousand.
const certain = 17

// report says what was done.
func (a *tally) report(t *testing.T) {
	all := 0
	for _, n := range a.answers {
		all += n
	}
	t.Logf("%d requests", all)
	for _, kind := range slices.Sorted(maps.Keys(a.answers)) {
		t.Logf("%7d  %s", a.answers[kind], kind)
	}
	for _, kind := range slices.Sorted(maps.Keys(a.took)) {
		took := a.took[kind]
		slices.Sort(took)
		at := func(p float64) time.Duration { return took[int(p*float64(len(took)-1))].Round(100 * time.Microsecond) }
		t.Logf("p50 %8v  p90 %8v  p99 %8v  %s", at(.5), at(.9), at(.99), kind)
	}
	for _, kind := range slices.Sorted(maps.Keys(a.slower)) {
		t.Logf("foreign longer %d, unknown longer %d: %s", a.slower[kind][0], a.slower[kind][1], kind)
	}
}
