package canary

import (
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-e2b/gateway/handlers/envelope"
	"github.com/caddy-e2b/gateway/integration/rock"
)

// credentials are what a client sends with each of its requests.
type credentials http.Header

// everything is a secret in every header that can have one.
func (s *scene) everything() credentials {
	mine := func(name string) string {
		value := s.mine.put(name)
		s.slots.add(name, value)
		return value
	}
	h := http.Header{
		"X-Api-Key":                {s.key},
		"X-Access-Token":           {s.token},
		"E2b-Traffic-Access-Token": {mine("traffic token")},
		"Authorization":            {"Bearer " + mine("bearer")},
		"Proxy-Authorization":      {"Basic " + mine("proxy authorization")},
		"X-Key":                    {mine("X-Key")},
		"Xrl-Authorization":        {mine("XRL-Authorization")},
		"Cookie":                   {"session=" + mine("cookie")},
		"Referer":                  {"https://a.test/files?signature=" + mine("Referer")},
		"X_api_key":                {mine("X_api_key")},
	}
	return credentials(h)
}

// basic is the same with a password in Authorization.
func (s *scene) basic(all credentials) credentials {
	value := s.mine.put("Basic password")
	s.slots.add("Basic password", value)
	r := http.Request{Header: http.Header(all).Clone()}
	r.SetBasicAuth("user", value)
	encoded := strings.TrimPrefix(r.Header.Get("Authorization"), "Basic ")
	s.slots.add("Basic password", encoded)
	s.mine.add("Basic password", encoded)
	return credentials(r.Header)
}

// wrong is the same with a key and a token that open nothing.
func (s *scene) wrong(all credentials) credentials {
	h := http.Header(all).Clone()
	for name, header := range map[string]string{"wrong API key": "X-Api-Key", "wrong token": "X-Access-Token"} {
		value := s.mine.put(name)
		s.slots.add(name, value)
		h.Set(header, value)
	}
	return credentials(h)
}

// call is one request of a client.
type call struct{ method, path, body, contentType, sandbox string }

func (s *scene) calls() []call {
	const json, stream = "application/json", "application/connect+json"
	start := string(envelope.Append(nil, 0, []byte(`{"process":{"cmd":"/bin/bash","args":["-l","-c","echo hello"]}}`)))
	calls := []call{
		{"GET", "/sandboxes?x-access-token=" + s.query, "", "", ""},
		{"GET", "/v2/sandboxes?metadata=a%3Db", "", "", ""},
		{"POST", "/sandboxes", `{"templateID":"base","metadata":{"a":"b"},"timeout":300}`, json, ""},
		{"POST", "/sandboxes", `{"templateID":"base","metadata":{"e2b-gateway/owner":"` + s.key + `"}}`, json, ""},
		{"POST", "/sandboxes", `{"templateID": ` + s.key, json, ""},
		{"GET", "/sandboxes/unknown", "", "", ""},
		{"POST", "/sandboxes/unknown/timeout", `{"timeout":3}`, json, ""},
		{"DELETE", "/sandboxes/unknown", "", "", ""},
		{"GET", "/nothing?signature=" + s.signature, "", "", ""},
		{"POST", "/init", `{"accessToken":"` + s.token + `"}`, json, "known"},
		{"GET", "/proxied/files?signature=" + s.signature, "", "", "known"},
		{"POST", "/proxied/process.Process/Start", start, stream, "known"},
		{"GET", "/panic?signature=" + s.signature, "", "", "known"},
		{"GET", "/fail?signature=" + s.signature, "", "", "known"},
		{"GET", "/refuse?signature=" + s.signature, "", "", "known"},
	}
	for _, sandbox := range []string{"known", "unknown", "no-json", "odd-state", "odd-type", "odd-host", "odd-time", "odd-id", "odd-secret", "odd-owner", "!"} {
		calls = append(calls,
			call{"GET", "/health", "", "", sandbox},
			call{"GET", "/files?path=/tmp/x&username=user&signature=" + s.signature + "&signature_expiration=9", "", "", sandbox},
			call{"POST", "/files?path=/tmp/x&sign%61ture=" + s.signature, "content", "application/octet-stream", sandbox},
			call{"POST", "/filesystem.Filesystem/Stat", `{"path":"/tmp"}`, json, sandbox},
			call{"POST", "/process.Process/Start", start, stream, sandbox},
		)
		if sandbox != "!" && sandbox != "unknown" {
			calls = append(calls, call{"GET", "/sandboxes/" + sandbox, "", "", ""})
		}
	}
	return calls
}

// faults are what ROCK does wrong, some of it with a secret in its answer.
func (s *scene) faults() map[string]*rock.Fault {
	answer := func(status int, contentType, body string) *rock.Fault {
		return &rock.Fault{Kind: rock.AnswerWith, At: rock.BeforeHeaders, Answer: rock.Answer{
			Status: status, Header: http.Header{"Content-Type": {contentType}}, Body: body}}
	}
	return map[string]*rock.Fault{
		"none":                 nil,
		"reset at once":        {Kind: rock.Reset, At: rock.BeforeHandler},
		"reset in the headers": {Kind: rock.Reset, At: rock.BeforeHeaders},
		"reset in the body":    {Kind: rock.Reset, At: 3},
		"closed in the body":   {Kind: rock.Close, At: 3},
		"ended in the body":    {Kind: rock.CleanEnd, At: 3},
		"a shorter length":     {Kind: rock.Lie, Add: -1},
		"a traceback":          answer(500, "text/plain", "Traceback (most recent call last):\nConnectionError: redis://:"+s.rockAnswer+"@10.0.0.1:6379\n"),
		"a page":               answer(502, "text/html", "<h1>"+s.rockAnswer+"</h1>"),
		"no JSON":              answer(200, "application/json", `{"sandboxID": `+s.rockData),
	}
}

// drive makes all calls with every fault, or with those that are named, and
// returns what the client was told.
func (s *scene) drive(t *testing.T, base string, client *http.Client, who credentials, only ...string) (told string) {
	t.Helper()
	var all strings.Builder
	for name, fault := range s.faults() {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		var armed *rock.Armed
		if fault != nil {
			armed = s.rock.Faults().Add(*fault)
		}
		// Side by side: the gateway takes its time to find out what became of a
		// sandbox.
		var calls sync.WaitGroup
		var mu sync.Mutex
		for _, c := range s.calls() {
			calls.Go(func() {
				answer := s.ask(t.Context(), base, client, who, c)
				if strings.HasPrefix(c.path, "/proxied/") {
					return // a stock reverse_proxy passes ROCK's answers on
				}
				mu.Lock()
				defer mu.Unlock()
				all.WriteString(name + " " + c.method + " " + c.path + " " + c.sandbox + ": " + answer + "\n")
			})
		}
		calls.Wait()
		if armed != nil {
			armed.Disarm()
		}
	}
	// A client that leaves in the middle of a stream.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sleep := string(envelope.Append(nil, 0, []byte(`{"process":{"cmd":"/bin/bash","args":["-l","-c","sleep 20"]}}`)))
	if resp, err := client.Do(request(ctx, base, who, call{"POST", "/process.Process/Start", sleep, "application/connect+json", "known"})); err == nil {
		_, _ = resp.Body.Read(make([]byte, 1))
		cancel()
		resp.Body.Close()
	}
	return all.String()
}

func request(ctx context.Context, base string, who credentials, c call) *http.Request {
	r, err := http.NewRequestWithContext(ctx, c.method, base+c.path, strings.NewReader(c.body))
	if err != nil {
		panic(err)
	}
	maps.Copy(r.Header, who)
	if c.contentType != "" {
		r.Header.Set("Content-Type", c.contentType)
	}
	if c.sandbox != "" {
		r.Header.Set("E2b-Sandbox-Id", c.sandbox)
		r.Header.Set("E2b-Sandbox-Port", "49983")
	}
	return r
}

func (s *scene) ask(ctx context.Context, base string, client *http.Client, who credentials, c call) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	resp, err := client.Do(request(ctx, base, who, c))
	if err != nil {
		return "no answer"
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	var headers strings.Builder
	_ = resp.Header.Write(&headers)
	return strings.ReplaceAll(resp.Status+" "+headers.String()+string(b), "\n", " ")
}
