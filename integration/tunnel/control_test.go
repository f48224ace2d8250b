package tunnel

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/integration/harness/inprocess"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// With registry control the admin role is asked for the mapping, since a local ROCK lets
// nobody see its records.
func TestPortsAreReachedByTheWordOfTheAdminRoleAlone(t *testing.T) {
	for _, mode := range []string{"rock", "direct"} {
		for _, transport := range transports {
			t.Run(mode+", "+string(transport), func(t *testing.T) {
				s := build(t, "mode "+mode)
				g := inprocess.Start(t, s.byControl, transport)
				box := s.create(t, "a")
				serve(t, box, hidden, hello)
				serve(t, box, published, hello)
				client := g.Client()
				for _, port := range []int{hidden, published, hidden} {
					status, body := text(t, client, request(t, http.MethodPost, g.URL, "a", port, strings.NewReader("body")))
					if status != 200 || !strings.HasPrefix(body, "POST /files?path=/x ") || !strings.HasSuffix(body, " body") {
						t.Errorf("port %d: %d %s", port, status, body)
					}
				}
				if n := box.Forwards(); n != 1 {
					t.Errorf("%d port-forwards for two requests to one port", n)
				}
			})
		}
	}
}

// ROCK describes a sandbox that is starting as one that runs, and a restarted one's record
// has the ports of its former life.
func TestAPortOfASandboxThatIsStartedAgainIsWaitedForWithoutItsRecord(t *testing.T) {
	s := build(t, "", func(o *rock.Options) { o.StartDelay = 2 * time.Second })
	g := inprocess.Start(t, s.byControl)
	box := s.create(t, "a")
	for _, path := range []string{"/stop", "/restart"} {
		resp, err := http.Post(s.admin+"/apis/envs/sandbox/v1"+path, "application/json", strings.NewReader(`{"sandbox_id":"a"}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		eventually(t, path, func() bool { return path == "/restart" || box.State() == rock.Stopped })
	}
	if box.State() != rock.Pending {
		t.Fatal(box.State())
	}
	status, body := text(t, g.Client(), request(t, http.MethodGet, g.URL, "a", hidden, nil))
	if box.State() != rock.Running || status != 502 || !strings.Contains(body, "is running but port is not open") {
		t.Errorf("%d %s of a sandbox that is %v", status, body, box.State())
	}
}

func TestAnAdminRoleThatDoesNotTellThePortsIsDontKnow(t *testing.T) {
	s := build(t, "")
	g := inprocess.Start(t, s.byControl)
	box := s.create(t, "a")
	serve(t, box, published, hello)
	s.rock.Faults().Add(rock.Fault{Match: rock.Match{Role: rock.Admin, Path: "/apis/envs/sandbox/v1/get_status"}, Kind: rock.AnswerWith, At: rock.BeforeHandler,
		Answer: rock.Failed("get status failed", "actor is dead")})
	if status, body := text(t, g.Client(), request(t, http.MethodGet, g.URL, "a", published, nil)); status != 503 {
		t.Errorf("%d %s", status, body)
	}
	s.rock.Faults().Clear()
	if status, body := text(t, g.Client(), request(t, http.MethodGet, g.URL, "a", published, nil)); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	s.kill(t, "a")
	eventually(t, "the sandbox is said to be gone", func() bool {
		status, body := text(t, g.Client(), request(t, http.MethodGet, g.URL, "a", published, nil))
		return status == 502 && strings.Contains(body, "was not found")
	})
}
