package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/caddy-e2b/gateway/routing"
)

// A question is a call that one role of ROCK knows, and the other answers as every
// path that it does not know. Neither call does anything.
type question struct {
	path string
	// answered reports an answer that only the role gives.
	answered func(status int, body []byte) bool
}

var questions = map[string]question{
	"admin": {"/sandboxes/" + probe, func(status int, body []byte) bool {
		var e2b struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		}
		return status == http.StatusNotFound && json.Unmarshal(body, &e2b) == nil && e2b.Code == status && e2b.Message != ""
	}},
	"proxy": {"/v2/sandboxes?metadata=" + probe + "%3D" + probe, func(status int, body []byte) bool {
		var list []json.RawMessage
		var failed struct {
			Code int `json:"code"`
		}
		// One record that it cannot show fails ROCK's whole list.
		return status == http.StatusOK && json.Unmarshal(body, &list) == nil && list != nil ||
			status == http.StatusInternalServerError && json.Unmarshal(body, &failed) == nil && failed.Code == status
	}},
}

var otherRole = map[string]string{"admin": "proxy", "proxy": "admin"}

// roles asks every address of every role, side by side.
func (x *examination) roles(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for i, c := range x.App.Clusters {
		if c == nil || i >= len(x.TLS) {
			continue
		}
		client := rockClient(x.TLS[i])
		for role, addresses := range map[string][]string{"admin": c.Admin, "proxy": c.Proxy} {
			for _, address := range addresses {
				where := fmt.Sprintf("cluster %s, %s %s", c.Name, role, address)
				running.Go(func() { x.role(ctx, client, role, address, where) })
			}
		}
	}
}

// rockClient is a client for one examination. It follows no redirect and no proxy
// of the environment, as the gateway does.
func rockClient(config *tls.Config) *http.Client {
	return &http.Client{
		Transport:     &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, ResponseHeaderTimeout: 5 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (x *examination) role(ctx context.Context, client *http.Client, role, address, where string) {
	asked := time.Now()
	answer, err := ask(ctx, client, address, questions[role])
	if err != nil {
		x.noAnswer(err, where)
		return
	}
	x.clock(answer.date, asked, where)
	if answer.right {
		return
	}
	if other, err := ask(ctx, client, address, questions[otherRole[role]]); err == nil && other.right {
		x.found(roleSwapped, where, "It answers as ROCK's %s role.", otherRole[role])
		return
	}
	x.found(roleStranger, where, "GET %s is answered with status %d and %q.", questions[role].path, answer.status, answer.kind)
}

func (x *examination) noAnswer(err error, where string) {
	var bad *tls.CertificateVerificationError
	if errors.As(err, &bad) {
		x.found(roleCertificate, where, "%v.", bad.Err)
		return
	}
	x.found(roleUnreachable, where, "%s.", plain(err))
}

// plain is an error of a connection without the URL.
func plain(err error) string {
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return "The name is not found: " + dns.Err
	case errors.Is(err, context.DeadlineExceeded):
		return "It does not answer in time"
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Sprintf("No connection: %v", op.Err)
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "It answers in cleartext to https"
	default:
		return fmt.Sprintf("No answer: %v", unwrapped(err))
	}
}

// unwrapped is the innermost error, whose text has no URL.
func unwrapped(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// answer is what an address said.
type answer struct {
	right  bool
	status int
	kind   string // content type
	date   time.Time
}

// maxAnswer is how much of an answer is read, in bytes.
const maxAnswer = 1 << 20

func ask(ctx context.Context, client *http.Client, address string, q question) (*answer, error) {
	response, body, err := get(ctx, client, address, q.path)
	if err != nil {
		return nil, err
	}
	a := &answer{right: q.answered(response.StatusCode, body), status: response.StatusCode, kind: response.Header.Get("Content-Type")}
	a.date, _ = http.ParseTime(response.Header.Get("Date"))
	return a, nil
}

// get asks an address of a role for a path, and returns the answer with what of its body
// may be read.
func get(ctx context.Context, client *http.Client, address, path string) (*http.Response, []byte, error) {
	e, err := routing.ParseEndpoint(address)
	if err != nil {
		return nil, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, e.Scheme+"://"+e.Address+path, nil)
	if err != nil {
		return nil, nil, err
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return response, body, err
}

// tolerance is how far clocks may differ, beyond what measuring cannot tell.
const tolerance = 5 * time.Second

// clock compares the Date of an answer, whole seconds, with the time at which the
// question was asked and now.
func (x *examination) clock(date, asked time.Time, where string) {
	if date.IsZero() {
		x.unchecked("the clock of "+where, "its answers have no Date")
		return
	}
	early, late := asked.Sub(date.Add(time.Second)), time.Until(date)
	if skew := max(early, late); skew > tolerance {
		x.skew(late == skew, skew, where)
	}
}

func (x *examination) skew(ahead bool, by time.Duration, where string) {
	side := "behind"
	if ahead {
		side = "ahead of"
	}
	x.found(clockSkew, where, "Its clock is %v %s this machine's.", by.Round(time.Second), side)
}
