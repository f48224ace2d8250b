package module

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-e2b/gateway/handlers"
	"github.com/caddy-e2b/gateway/routing"
	"github.com/caddy-e2b/gateway/routing/static"
)

func TestADescriptionIsARequestAsAServerReadsIt(t *testing.T) {
	q, err := readExplain(strings.NewReader(`{"sandbox_id":"abc"}`))
	r := q.Request
	if err != nil || !q.AsOwner || r.Method != "POST" || r.URL.Path != "/process.Process/List" || r.Header.Get("E2b-Sandbox-Id") != "abc" ||
		r.Header.Get("E2b-Sandbox-Port") != "49983" || r.Header.Get("Content-Type") != "application/json" || q.Planes != handlers.Both {
		t.Errorf("%+v %v", q, err)
	}
	q, err = readExplain(strings.NewReader(`{"method":"PUT","host":"3000-a.x.test","path":"/a%2Fb?c=d","headers":{"x-a":["1","2"]},"body":"abc","plane":"data","http":"2","sandbox_port":80}`))
	r = q.Request
	if err != nil || q.AsOwner || r.Method != "PUT" || r.Host != "3000-a.x.test" || r.RequestURI != "/a%2Fb?c=d" || r.URL.RawQuery != "c=d" || r.ContentLength != 3 ||
		len(r.Header["X-A"]) != 2 || r.ProtoMajor != 2 || q.Planes != handlers.Data || r.Header.Get("E2b-Sandbox-Port") != "80" || r.Header["E2b-Sandbox-Id"] != nil {
		t.Errorf("%+v %v", q, err)
	}
}

// neverSends is an upstream by which nothing may be sent.
type neverSends struct{}

func (neverSends) RoundTrip(r *http.Request) (*http.Response, error) {
	panic("it was sent: " + r.Method + " " + r.URL.String())
}

// Whatever is described is explained, and nothing of it is sent.
func FuzzExplain(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"sandbox_id":"a"}`, `{"sandbox_id":"b","as_owner":true}`, `{"path":"/sandboxes","method":"POST","body":"{\"templateID\":\"x\"}"}`,
		`{"path":"/files?path=%2Fa&signature=v1_x","host":"49983-a.box.test"}`, `{"method":"DELETE","path":"/sandboxes/a"}`,
		`{"method":"GET","path":"/socket","sandbox_id":"a","sandbox_port":3000,"headers":{"Connection":["Upgrade"],"Upgrade":["websocket"]}}`,
		`{"http":"2","method":"CONNECT","path":"/x","headers":{":protocol":["websocket"]}}`, `{"sandbox_id":"a","headers":{"Content-Type":["application/connect+json"]},"path":"/process.Process/Start","method":"POST"}`,
		`{"sandbox_id":"a","headers":{"Content-Length":["5"],"Expect":["100-continue"]},"body":"abc"}`, `{"method":"OPTIONS","path":"/sandboxes","headers":{"Origin":["https://a.test"],"Access-Control-Request-Method":["POST"]}}`,
	} {
		f.Add(seed)
	}
	registry, err := static.New(map[string]static.Sandbox{"a": {}})
	if err != nil {
		f.Fatal(err)
	}
	role := func() *routing.Balancer {
		e, err := routing.ParseEndpoint("http://127.0.0.1:1")
		if err != nil {
			f.Fatal(err)
		}
		return routing.NewBalancer([]*routing.Endpoint{e}, nil)
	}
	domain, err := routing.ParseDomain("box.test")
	if err != nil {
		f.Fatal(err)
	}
	cache := routing.NewCache(routing.NewUnion([]routing.Member{{Cluster: "c", Registry: registry}}), routing.CacheOptions{})
	gateway := handlers.New(handlers.Options{
		Clusters: []*routing.Cluster{{Name: "c", Admin: role(), Proxy: role(), Mode: routing.ModeRock}},
		Routes:   cache, Upstream: neverSends{}, Domains: []routing.Domain{domain},
	})
	f.Cleanup(func() { gateway.Close(); cache.Close() })
	f.Fuzz(func(t *testing.T, description string) {
		q, err := readExplain(strings.NewReader(description))
		if err != nil {
			return
		}
		e, err := gateway.Explain(t.Context(), q)
		if err != nil {
			return
		}
		if len(e.Steps) == 0 || e.Sent != (e.StopsAt == "" && len(e.Tries) > 0) {
			t.Errorf("%s: %+v", description, e)
		}
		if err := answerJSON(httptest.NewRecorder(), 200, e); err != nil {
			t.Error(err)
		}
		if s := cache.Stats(); s.Invalidations != 0 {
			t.Fatalf("%s: a route was forgotten", description)
		}
	})
}
